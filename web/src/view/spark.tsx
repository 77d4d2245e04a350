// A line of a few pixels: how a number went lately.
import { useEffect, useRef } from "preact/hooks";
import { theme } from "../lib/theme.ts";
import { useStore } from "../lib/store.ts";

export function Spark({
  values,
  label,
  width = 90,
  height = 18,
}: {
  values: (number | null)[];
  label: string;
  width?: number;
  height?: number;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { dark } = useStore(theme);

  useEffect(() => {
    const pen = canvas.current?.getContext("2d");
    if (!pen) return;
    const ratio = devicePixelRatio || 1,
      known = values.filter((v): v is number => v !== null);
    canvas.current!.width = width * ratio;
    canvas.current!.height = height * ratio;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    if (known.length < 2) return;
    const low = Math.min(...known),
      high = Math.max(...known),
      span = high - low;
    const x = (i: number) => 1 + (i / (values.length - 1)) * (width - 2);
    // A value that hardly moves is a flat line, not noise blown up to the whole height.
    const room = Math.max(span, Math.abs(high) * 0.2) || 1,
      base = (low + high - room) / 2;
    const y = (v: number) => height - 2 - ((v - base) / room) * (height - 4);
    pen.strokeStyle = dark ? "#8d939a" : "#7b8188";
    pen.lineWidth = 1.2;
    pen.lineJoin = "round";
    pen.beginPath();
    let drawing = false;
    values.forEach((v, i) => {
      if (v === null) {
        drawing = false;
        return;
      }
      if (drawing) pen.lineTo(x(i), y(v));
      else pen.moveTo(x(i), y(v));
      drawing = true;
    });
    pen.stroke();
  }, [values, width, height, dark]);

  return (
    <canvas
      class="spark"
      ref={canvas}
      style={{ width: `${width}px`, height: `${height}px` }}
      role="img"
      aria-label={label}
    />
  );
}
