// A bulk transfer or a flow of datagrams over time: what arrived in each
// interval, and under it what was sent again or lost.
import * as Plot from "@observablehq/plot";
import type { JSX } from "preact";
import { count, number, scaleOf, share, short, time, value } from "../format";
import type { Flow } from "../model";
import { plotStyle } from "../parts/axis";
import { Chart, type Drawn, type Hit } from "../parts/chart";

export function FlowChart(props: { flow: Flow; name: string }): JSX.Element {
  const { flow, name } = props;
  const both = flow.up_bps.length > 0 && flow.down_bps.length > 0;
  return (
    <Chart
      title={`goodput over time, ${name}`}
      caption={
        <>
          <h3>{name}</h3> {both && <span>line: from the generator; dashes: to it</span>}
        </>
      }
      description={describe(flow)}
      draw={(width) => draw(flow, width)}
      on={[flow]}
    />
  );
}

function describe(f: Flow): string {
  const rates = [...f.up_bps, ...f.down_bps];
  const parts = [`${count(f.length_s.length)} intervals, ${value(Math.min(...rates), "bit/s")} to ${value(Math.max(...rates), "bit/s")}`];
  if (f.retransmits.length > 0) parts.push(`${count(f.retransmits.reduce((a, b) => a + b, 0))} segments sent again`);
  if (f.loss.length > 0) parts.push(`loss up to ${share(Math.max(...f.loss))}`);
  return parts.join("; ");
}

/** Where each interval begins and ends, in seconds. */
export function spans(lengths: number[]): { x1: number; x2: number }[] {
  let at = 0;
  return lengths.map((l) => ({ x1: at, x2: (at += l) }));
}

interface Step {
  x1: number;
  x2: number;
  y: number;
}

const top = { height: 230, marginTop: 10, marginBottom: 8 };
const strip = { height: 116, marginTop: 24, marginBottom: 40 };
const sides = { marginLeft: 74, marginRight: 14 };

function draw(f: Flow, width: number): Drawn {
  const at = spans(f.length_s);
  const end = at[at.length - 1]?.x2 ?? 1;
  const steps = (ys: number[]): Step[] => at.map((s, i) => ({ ...s, y: ys[i] ?? 0 }));
  const upper = goodput(f, steps, width, end);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("overflow", "visible");
  svg.setAttribute("width", String(width));
  svg.setAttribute("height", String(top.height + strip.height));
  svg.setAttribute("viewBox", `0 0 ${width} ${top.height + strip.height}`);
  const lower = troubles(f, steps, width, end);
  lower.setAttribute("y", String(top.height));
  svg.append(upper, lower);
  const x = (upper as unknown as Plot.Plot).scale("x");
  const hits: Hit[] = at.map((s, i) => ({
    x: Number(x?.apply((s.x1 + s.x2) / 2)),
    y: 28,
    title: `${number(s.x1)} to ${number(s.x2)} s`,
    rows: rowsOf(f, i),
  }));
  return { svg, hits, along: "x" };
}

function rowsOf(f: Flow, i: number): Hit["rows"] {
  const rows: Hit["rows"] = [];
  const add = (label: string, xs: number[], text: (x: number) => string): void => {
    const x = xs[i];
    if (x !== undefined) rows.push({ label, value: text(x) });
  };
  add("from the generator", f.up_bps, (x) => value(x, "bit/s"));
  add("to the generator", f.down_bps, (x) => value(x, "bit/s"));
  add("sent again", f.retransmits, count);
  add("lost", f.loss, share);
  add("jitter", f.jitter_s, time);
  return rows;
}

function goodput(f: Flow, steps: (ys: number[]) => Step[], width: number, end: number): SVGSVGElement {
  const most = Math.max(1, ...f.up_bps, ...f.down_bps);
  const s = scaleOf("bit/s", most);
  const line = (ys: number[], dash: string): Plot.Markish[] =>
    ys.length === 0 ? [] : [Plot.rectY(steps(ys), { x1: "x1", x2: "x2", y1: 0, y2: (d: Step) => d.y * s.by, fill: "var(--density)", fillOpacity: 0.14, insetRight: 0.5 }), Plot.ruleY(steps(ys), { x1: "x1", x2: "x2", y: (d: Step) => d.y * s.by, stroke: "var(--text)", strokeWidth: 1.8, strokeDasharray: dash })];
  return Plot.plot({
    width,
    ...top,
    ...sides,
    style: plotStyle,
    x: { domain: [0, end], axis: null },
    // From zero: a dip must not look like a stop.
    y: { domain: [0, most * s.by * 1.06] },
    marks: [
      Plot.gridY({ ticks: 5, stroke: "var(--grid)", strokeOpacity: 1 }),
      ...line(f.up_bps, "none"),
      ...line(f.down_bps, "5 3"),
      Plot.ruleY([0], { stroke: "var(--axis)" }),
      Plot.axisY({ ticks: 5, tickFormat: (v: number) => `${short(v)} ${s.unit}`, tickSize: 0, label: null, color: "var(--muted)" }),
    ],
  }) as SVGSVGElement;
}

/** Retransmits of a stream, loss of datagrams. */
function troubles(f: Flow, steps: (ys: number[]) => Step[], width: number, end: number): SVGSVGElement {
  const lossy = f.loss.length > 0;
  const bars = steps(lossy ? f.loss : f.retransmits);
  const most = Math.max(...bars.map((b) => b.y), 0);
  const text = (v: number): string => (lossy ? share(v) : count(v));
  const what = lossy ? "lost" : f.retransmits.length > 0 ? "segments sent again" : "";
  return Plot.plot({
    width,
    ...strip,
    ...sides,
    style: plotStyle,
    x: { domain: [0, end] },
    y: { domain: [0, most || 1] },
    marks: [
      Plot.rectY(bars, { x1: "x1", x2: "x2", y: "y", fill: "var(--bad)", insetRight: 0.5 }),
      Plot.ruleY([0], { stroke: "var(--axis)" }),
      Plot.text([most === 0 && what !== "" ? `none ${what}` : what], { frameAnchor: "top-left", dy: -14, text: (d: string) => d, fill: "var(--muted)" }),
      Plot.axisX({ ticks: 10, tickSize: 0, label: "seconds since the window began", labelAnchor: "center", labelArrow: "none", color: "var(--muted)" }),
      Plot.axisY(most > 0 ? [0, most] : [0], { tickFormat: text, tickSize: 0, label: null, color: "var(--muted)" }),
    ],
  }) as SVGSVGElement;
}
