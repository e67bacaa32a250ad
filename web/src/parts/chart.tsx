// A chart with a title, downloads, and a cursor that the pointer or the arrow
// keys move from one value to the next.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { savePNG, saveSVG } from "../export";

/** Something under the cursor, in pixels of the chart. */
export interface Hit {
  x: number;
  y: number;
  title: string;
  rows: { label: string; value: string; color?: string }[];
}

export interface Drawn {
  svg: SVGSVGElement;
  /** In the order in which the arrow keys visit them. */
  hits: Hit[];
  /** Which way the cursor moves: along x it draws a line down, along y a band across. */
  along: "x" | "y";
}

export function Chart(props: {
  title: string;
  /** The title and what stands beside it, as shown. */
  caption?: ComponentChildren;
  /** What the chart shows, for those who cannot see it. */
  description: string;
  draw(width: number): Drawn;
  /** Redraws when one of these changes. */
  on: unknown[];
  foot?: ComponentChildren;
  /** What colours mean, for downloads: on the page it stands elsewhere. */
  legend?: { label: string; color: string }[];
}): JSX.Element {
  const frame = useRef<HTMLDivElement>(null);
  const width = useWidth(frame);
  const [drawn, setDrawn] = useState<Drawn | null>(null);
  const [at, setAt] = useState(-1);
  useLayoutEffect(() => {
    if (width === 0) return;
    const d = props.draw(width);
    d.svg.setAttribute("role", "img");
    d.svg.setAttribute("aria-label", props.description);
    frame.current?.querySelector(".plot")?.replaceChildren(d.svg);
    setDrawn(d);
    setAt(-1);
  }, [width, ...props.on]);
  const hit = drawn?.hits[at];
  useCursor(drawn, hit);
  const move = (e: PointerEvent): void => {
    if (drawn !== null) setAt(nearest(drawn, e));
  };
  const key = (e: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    if (e.key === "Escape") setAt(-1);
    if (step === undefined || drawn === null || drawn.hits.length === 0) return;
    e.preventDefault();
    setAt(at < 0 ? 0 : Math.min(drawn.hits.length - 1, Math.max(0, at + step)));
  };
  const save = (how: typeof saveSVG | typeof savePNG): void => {
    if (drawn !== null) void how({ svg: drawn.svg, title: props.title, legend: props.legend ?? [] });
  };
  return (
    <figure class="chart">
      <figcaption>
        <div class="caption">{props.caption ?? props.title}</div>
        <span class="copy" role="group" aria-label={`download ${props.title}`}>
          <button type="button" class="quiet" aria-label="download SVG" onClick={() => save(saveSVG)}>
            SVG
          </button>
          <button type="button" class="quiet" aria-label="download PNG" onClick={() => save(savePNG)}>
            PNG
          </button>
        </span>
      </figcaption>
      <div class="frame" ref={frame} tabIndex={0} role="group" aria-label={`${props.title}: arrow keys read the values`} onPointerMove={move} onPointerLeave={() => setAt(-1)} onKeyDown={key} onBlur={() => setAt(-1)}>
        <div class="plot" />
        {hit && <Tip hit={hit} width={width} />}
      </div>
      {props.foot}
    </figure>
  );
}

function Tip(props: { hit: Hit; width: number }): JSX.Element {
  const { hit } = props;
  const right = hit.x > props.width / 2;
  const place = right ? { right: `${props.width - hit.x + 12}px` } : { left: `${hit.x + 12}px` };
  return (
    <div class="tip" role="status" style={{ ...place, top: `${Math.max(0, hit.y - 16)}px` }}>
      <b>{hit.title}</b>
      <dl>
        {hit.rows.map((r) => (
          <div key={r.label}>
            <dt>
              {r.color && <span class="dot" style={{ background: r.color }} />}
              {r.label}
            </dt>
            <dd>{r.value}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

/** Draws the cursor into the chart; marked so that downloads leave it out. */
function useCursor(drawn: Drawn | null, hit: Hit | undefined): void {
  useEffect(() => {
    if (drawn === null || hit === undefined) return;
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    const [w, h] = [drawn.svg.getAttribute("width") ?? "0", drawn.svg.getAttribute("height") ?? "0"];
    const ends = drawn.along === "x" ? { x1: hit.x, x2: hit.x, y1: 0, y2: h } : { x1: 0, x2: w, y1: hit.y, y2: hit.y };
    for (const [name, v] of Object.entries(ends)) line.setAttribute(name, String(v));
    line.setAttribute("data-screen", "");
    line.setAttribute("class", drawn.along === "x" ? "cursor" : "cursor band");
    drawn.svg.prepend(line);
    return () => line.remove();
  }, [drawn, hit]);
}

function nearest(d: Drawn, e: PointerEvent): number {
  const box = d.svg.getBoundingClientRect();
  const at = d.along === "x" ? e.clientX - box.left : e.clientY - box.top;
  let best = -1;
  let distance = Infinity;
  d.hits.forEach((h, i) => {
    const away = Math.abs(h[d.along] - at);
    if (away < distance) [best, distance] = [i, away];
  });
  return best;
}

/** The width of an element in whole pixels; 0 until it is known. */
function useWidth(ref: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = ref.current;
    if (element === null) return;
    // Never narrower than a chart can be: the style sheet scales it down.
    const measure = (): void => setWidth(Math.max(300, Math.floor(element.clientWidth)));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return width;
}
