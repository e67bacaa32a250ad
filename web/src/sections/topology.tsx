// The site as a picture, with the way of a request through one variant.
import { render, type JSX } from "preact";
import { Chart, type Drawn } from "../parts/chart";
import { Section, Select, Swatch } from "../parts/controls";
import { usePage } from "../parts/context";
import { plural } from "../format";
import type { Traffic } from "../model";
import { layout, type Layout, type Placed } from "./layout";

export function Topology(): JSX.Element | null {
  const { view, state, set, variants } = usePage();
  const { topology } = view.model;
  const withPath = topology.paths.filter((p) => p.hops.length > 0);
  if (topology.nodes.length === 0 && withPath.length === 0) return null;
  const last = [...withPath].reverse().find((p) => variants.some((v) => v.name === p.variant && !v.control)) ?? withPath[0];
  const chosen = withPath.find((p) => p.variant === state.path) ?? last;
  const hops = chosen?.hops ?? [];
  const color = view.look(chosen?.variant ?? "").color;
  const traffic = (topology.traffic ?? []).filter((t) => t.variant === chosen?.variant);
  const passed = traffic.find((t) => t.load === state.traffic) ?? traffic[0];
  const tools = withPath.length > 0 && (
    <>
      <Select label="path of" value={chosen?.variant ?? ""} onChange={(path) => set({ path })}>
        {withPath.map((p) => (
          <option key={p.variant} value={p.variant}>
            {p.variant}
          </option>
        ))}
      </Select>
      {passed && (
        <Select label="traffic of" value={passed.load} onChange={(load) => set({ traffic: load })}>
          {traffic.map((t) => (
            <option key={t.load} value={t.load}>
              {t.load}
            </option>
          ))}
        </Select>
      )}
    </>
  );
  return (
    <Section id="topology" title="Topology" tools={tools} lead={lead(passed)}>
      <Chart
        title={`topology, path of ${chosen?.variant ?? "a request"}`}
        caption={<h3>{chosen ? `a request through ${chosen.variant}` : "the site"}</h3>}
        description={hops.join(", then ") || "the nodes and pods of the site"}
        draw={(width) => draw(layout(topology.nodes, hops, passed?.devices), color, width)}
        on={[view, chosen?.variant, passed?.load]}
      />
      <ol class="paths">
        {withPath
          .filter((p) => variants.some((v) => v.name === p.variant))
          .map((p) => (
            <li key={p.variant} class={p.variant === chosen?.variant ? "chosen" : ""}>
              <button type="button" class="quiet" aria-pressed={p.variant === chosen?.variant} onClick={() => set({ path: p.variant })}>
                <Swatch look={view.look(p.variant)} /> {p.variant}
              </button>
              <span>{p.hops.join(" → ")}</span>
            </li>
          ))}
      </ol>
    </Section>
  );
}

function lead(passed: Traffic | undefined): string {
  const site = "The site, and the way of a request through the chosen variant.";
  if (passed === undefined) return site;
  return `${site} Rates are what passed each device under ${passed.load}, to it (↓) and from it (↑), headers included: medians of ${plural(passed.trials, "trial")}.`;
}

function draw(l: Layout, color: string, width: number): Drawn {
  const holder = document.createElement("div");
  render(<Picture layout={l} color={color} width={width} />, holder);
  return { svg: holder.firstElementChild as SVGSVGElement, hits: [], along: "x" };
}

function Picture(props: { layout: Layout; color: string; width: number }): JSX.Element {
  const { layout: l, color } = props;
  const scale = Math.min(1, props.width / l.width);
  return (
    <svg width={Math.round(l.width * scale)} height={Math.round(l.height * scale)} viewBox={`0 0 ${l.width} ${l.height}`} font-size="12" class="topology">
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path d="M0,0.5L7.5,4L0,7.5Z" fill={color} />
        </marker>
      </defs>
      {l.groups.map((g) => (
        <Frame key={`g${g.x}/${g.y}`} box={g} kind="group" />
      ))}
      {l.nodes.map((n) => (
        <Frame key={`n${n.label}`} box={n} kind="node" />
      ))}
      {l.pods.map((p) => (
        <Frame key={`p${p.label}`} box={p} kind="pod" />
      ))}
      {l.lines.map((d, i) => (
        <path key={i} d={d} fill="none" stroke={color} stroke-width="2" stroke-linecap="round" marker-end="url(#arrow)" />
      ))}
      {l.underlay.map((u, i) => (
        <line key={`u${i}`} x1={u.x1} y1={u.y1} x2={u.x2} y2={u.y2} stroke={color} stroke-opacity="0.45" stroke-width={u.width} stroke-linecap="round" />
      ))}
      {l.rates.map((r) => (
        <text key={`${r.x}/${r.y}`} x={r.x} y={r.y} dy="0.35em" font-size="11" fill="var(--muted)">
          {r.text}
        </text>
      ))}
      {l.hops.map((h, i) => (
        <g key={i}>
          <rect x={h.x} y={h.y} width={h.width} height={h.height} rx="5" fill="var(--paper)" stroke={color} stroke-width="1.5" />
          <text x={h.x + 10} y={h.y + h.height / 2} dy="0.35em" fill={color} font-weight="700">
            {i + 1}
          </text>
          <text x={h.x + 26} y={h.y + h.height / 2} dy="0.35em" fill="var(--text)">
            {h.label}
          </text>
        </g>
      ))}
    </svg>
  );
}

const frames = {
  group: { fill: "none", stroke: "var(--line)", dash: "3 4", text: "var(--muted)", weight: 400 },
  node: { fill: "var(--wash)", stroke: "var(--line)", dash: undefined, text: "var(--muted)", weight: 600 },
  pod: { fill: "var(--paper)", stroke: "var(--line)", dash: undefined, text: "var(--text)", weight: 600 },
} as const;

function Frame(props: { box: Placed; kind: keyof typeof frames }): JSX.Element {
  const { box } = props;
  const f = frames[props.kind];
  return (
    <g>
      <rect x={box.x} y={box.y} width={box.width} height={box.height} rx={props.kind === "pod" ? 6 : 9} fill={f.fill} stroke={f.stroke} stroke-dasharray={f.dash} />
      <text x={box.x + 10} y={box.y + 17} fill={f.text} font-weight={f.weight}>
        {box.label}
      </text>
      {box.note && (
        <text x={box.x + box.width - 10} y={box.y + 17} text-anchor="end" fill="var(--muted)">
          {box.note}
        </text>
      )}
    </g>
  );
}
