// Server-sent events out of a stream of bytes: fetch instead of EventSource, since the question is
// a body and needs a header.

export interface ServerEvent {
  event: string;
  data: string;
}

/** Feeds text, hands out whole events. Comments and fields that are not used are passed over. */
export class EventParser {
  private rest = "";

  feed(text: string): ServerEvent[] {
    const found: ServerEvent[] = [];
    this.rest += text;
    for (let end; (end = this.rest.indexOf("\n\n")) >= 0; this.rest = this.rest.slice(end + 2)) {
      let event = "message";
      const data: string[] = [];
      for (const line of this.rest.slice(0, end).split("\n")) {
        if (line.startsWith("event: ")) event = line.slice(7);
        else if (line.startsWith("data: ")) data.push(line.slice(6));
      }
      if (data.length) found.push({ event, data: data.join("\n") });
    }
    return found;
  }
}
