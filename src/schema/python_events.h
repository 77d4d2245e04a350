/*
 * python_events.h - the columns of python.events.
 *
 * Owns: nothing; a list. Threads: any. Fails: never.
 * Not here: who writes it (agent/collectors/).
 */
#ifndef PB_SCHEMA_PYTHON_EVENTS_H
#define PB_SCHEMA_PYTHON_EVENTS_H

#define PB_PYTHON_EVENTS_NAME "python.events"
#define PB_PYTHON_EVENTS_DOC "what the code said with probing.event()"

/* X(column, type, unit, doc) */
#define PB_PYTHON_EVENTS(X)                                                                       \
    X(timestamp, TIME, "", "when it happened")                                                    \
    X(name, NAME, "", "name given in the code")                                                   \
    X(tid, INT, "", "thread")                                                                     \
    X(span_id, INT, "", "the span it happened in")                                                \
    X(attrs, TEXT, "", "attributes, JSON")

#endif

#ifdef PB_TABLE /* tables.def is being read */
PB_TABLE(PB_PYTHON_EVENTS)
#endif
