// The main tables, one a load: like the table on the terminal.
import type { ComponentChildren, JSX } from "preact";
import { differenceParts, difference, interval, pretty, ratio, ratioParts, value } from "../format";
import type { Cell, Comparison, Estimate, Load, Metric, Variant } from "../model";
import { FindingCount, Mark, Section, Swatch, counted } from "../parts/controls";
import { usePage } from "../parts/context";
import { Table, type Column } from "../parts/table";
import { marks, type View } from "../view";

export function Summary(): JSX.Element {
  const { loads, view } = usePage();
  return (
    <Section id="summary" title="At a glance" lead={<>Differences are against <b>{view.baseline}</b>, paired by block, with {Math.round(view.model.run.level * 100)} % intervals. <b>~</b> means that no difference was shown.</>}>
      {loads.map((l) => (
        <LoadTable key={l.name} load={l} />
      ))}
      {loads.length === 0 && <p class="empty">All loads are switched off.</p>}
    </Section>
  );
}

function LoadTable(props: { load: Load }): JSX.Element {
  const { view, variants } = usePage();
  const { load } = props;
  const first = view.main(load)[0];
  const floor = first && view.model.comparisons.find((c) => c.load === load.name && c.metric === first.name && c.floor > 0)?.floor;
  return (
    <Table
      id={`main.${load.name}`}
      label={`main table, load ${load.name}`}
      class="main"
      columns={columns(view, load)}
      rows={variants}
      keyOf={(v) => v.name}
      classOf={(v) => (v.control ? "control" : v.baseline ? "baseline" : "")}
      caption={
        <>
          <h3>{load.name}</h3> <span>{load.text}</span>
          {load.response_is_service && <span title="A closed loop has no due times: its response time is its service time.">cannot see queueing</span>}
          {floor !== undefined && first && (
            <span class="floor" title="The baseline against itself: differences within it are noise.">
              noise floor (A/A) ±{value(floor, first.unit)}
            </span>
          )}
        </>
      }
    />
  );
}

/** The load's main metrics; the first is compared, beside those of its group. */
function columns(view: View, load: Load): Column<Variant>[] {
  const all: Column<Variant>[] = [
    {
      id: "variant",
      head: "variant",
      text: (v) => v.name,
      cell: (v) => (
        <>
          <Swatch look={view.look(v.name)} /> {v.name} {v.baseline && <small>baseline</small>}
          {v.control && <small>A/A control</small>}
        </>
      ),
    },
  ];
  const metrics = view.main(load).filter((m, i) => i === 0 || view.model.variants.some((v) => view.cell(v.name, load.name, m.name)?.estimate));
  const first = metrics[0];
  metrics.forEach((m, i) => {
    all.push(valueColumn(view, load.name, m, ...heads(m)));
    const next = metrics[i + 1];
    if (first && group(m) === group(first) && (next === undefined || group(next) !== group(first))) {
      all.push(differenceColumn(view, load.name, first));
      // A loss of nothing has no ratio.
      if (view.model.comparisons.some((c) => c.load === load.name && c.metric === first.name && c.ratio)) all.push(ratioColumn(view, load.name, first));
    }
  });
  all.push({
    id: "findings",
    head: "findings",
    text: (v) => counted(view.findings(v.name, load.name)),
    cell: (v) => <FindingCount findings={view.findings(v.name, load.name)} variant={v.name} load={load.name} />,
    sort: (v) => view.findings(v.name, load.name).length,
  });
  return all;
}

function group(m: Metric): string {
  return m.name.split(".")[0] ?? m.name;
}

/** A column's head and what stands under it. */
function heads(m: Metric): [head: string, under?: string] {
  switch (m.unit) {
    case "s/1k requests":
      return ["CPU", "per 1,000 requests"];
    case "s/1k packets":
    case "s/Gbit":
      return ["CPU", "per Gbit"];
    case "bytes":
      return ["memory", "peak"];
    default:
      return [m.name.replace(".", " ")];
  }
}

/** One metric's estimate with its interval on the second line. */
function valueColumn(view: View, load: string, m: Metric, head: string, under?: string): Column<Variant> {
  const cell = (v: Variant): Cell | undefined => view.cell(v.name, load, m.name);
  return {
    id: m.name,
    head,
    ...(under ? { under } : {}),
    title: m.label,
    numeric: true,
    // As on the terminal: latencies without, CPU with its interval.
    text: (v) => {
      const e = cell(v)?.estimate;
      return e && m.name.startsWith("cpu.") ? interval(e, m.unit) : cellText(cell(v), m);
    },
    cell: (v) => <CellValue cell={cell(v)} metric={m} mark={<Mark findings={marks(view, v.name, load, m.name)} />} />,
    sort: (v) => cell(v)?.estimate?.value,
    raw: [
      { head: `${m.name} (${m.unit})`, of: (v) => cell(v)?.estimate?.value },
      { head: `${m.name} low`, of: (v) => cell(v)?.estimate?.lo },
      { head: `${m.name} high`, of: (v) => cell(v)?.estimate?.hi },
    ],
  };
}

function CellValue(props: { cell: Cell | undefined; metric: Metric; mark: ComponentChildren }): JSX.Element {
  const { cell, metric } = props;
  if (cell?.estimate === undefined && !cell?.text) {
    return (
      <span class="absent" title={cell?.reason ?? "not measured"}>
        –
      </span>
    );
  }
  const title = cell.estimate ? `${interval(cell.estimate, metric.unit)}, ${cell.estimate.n} trials, ${cell.estimate.method}` : cell.reason;
  return (
    <span title={title}>
      {props.mark}
      {cell.text ? pretty(cell.text) : value(cell.estimate?.value ?? Number.NaN, metric.unit)}
      {cell.pooled && <sup title="pooled over trials: one alone has too few samples">p</sup>}
      {cell.estimate && !cell.text && <span class="interval">{bounds(cell.estimate, metric)}</span>}
    </span>
  );
}

/** The interval alone: its value stands above it. */
function bounds(e: Estimate, m: Metric): string {
  return /\[.*\]$/.exec(interval(e, m.unit))?.[0] ?? "";
}

/** What is known of a cell in one line. */
export function cellText(cell: Cell | undefined, m: Metric): string {
  if (cell?.text) return pretty(cell.text);
  if (cell?.estimate === undefined) return "–";
  return value(cell.estimate.value, m.unit);
}

function differenceColumn(view: View, load: string, m: Metric): Column<Variant> {
  const of = (v: Variant): Comparison | undefined => view.comparison(v.name, load, m.name);
  return {
    id: "difference",
    head: "difference",
    under: m.name.split(".").pop() ?? m.name,
    title: `difference of ${m.label} to ${view.baseline}`,
    numeric: true,
    text: (v) => differenceText(of(v), m),
    cell: (v) => <Difference comparison={of(v)} metric={m} />,
    sort: (v) => of(v)?.difference?.value,
    raw: [
      { head: `difference ${m.name} (${m.unit})`, of: (v) => of(v)?.difference?.value },
      { head: "difference low", of: (v) => of(v)?.difference?.lo },
      { head: "difference high", of: (v) => of(v)?.difference?.hi },
      { head: "verdict", of: (v) => of(v)?.verdict },
    ],
  };
}

function ratioColumn(view: View, load: string, m: Metric): Column<Variant> {
  const of = (v: Variant): Comparison | undefined => view.comparison(v.name, load, m.name);
  return {
    id: "ratio",
    head: "ratio",
    under: m.name.split(".").pop() ?? m.name,
    title: `ratio of ${m.label} to ${view.baseline}`,
    numeric: true,
    text: (v) => ratioText(of(v)),
    cell: (v) => {
      const r = of(v)?.ratio;
      return r && of(v)?.verdict === "different" ? (
        <>
          {ratio(r.value)} <span class="interval">{ratioParts(r).interval}</span>
        </>
      ) : (
        ""
      );
    },
    sort: (v) => of(v)?.ratio?.value,
    raw: [
      { head: "ratio", of: (v) => of(v)?.ratio?.value },
      { head: "ratio low", of: (v) => of(v)?.ratio?.lo },
      { head: "ratio high", of: (v) => of(v)?.ratio?.hi },
    ],
  };
}

/** "9.40×" where a difference was shown. */
export function ratioText(c: Comparison | undefined): string {
  if (c?.ratio === undefined || c.verdict !== "different") return "";
  return ratio(c.ratio.value);
}

/** A comparison in words: the difference with its interval, "~", or why there is none. */
export function differenceText(c: Comparison | undefined, m: Metric): string {
  if (c === undefined) return "";
  if (c.verdict === "~") return "~";
  if (c.verdict === "equivalent") return "equivalent";
  if (c.difference === undefined || c.verdict === "unknown") return "?";
  const d = differenceParts(c.difference, m.unit);
  return `${d.value} ${d.interval}`;
}

/** A comparison as it stands in a table. */
export function Difference(props: { comparison: Comparison | undefined; metric: Metric }): JSX.Element {
  const { comparison: c, metric: m } = props;
  if (c === undefined) return <span class="absent" />;
  const seen = c.detectable > 0 ? `An effect of ${difference(c.detectable, m.unit).replace("+", "")} would have been seen.` : "";
  if (c.verdict === "~" || c.verdict === "equivalent") {
    const measured = c.difference ? `${Object.values(differenceParts(c.difference, m.unit)).join(" ")}. ` : "";
    return (
      <span class={c.verdict === "~" ? "none" : "equivalent"} title={`${measured}${seen}`}>
        {c.verdict === "~" ? "~" : "equivalent"}
      </span>
    );
  }
  if (c.difference === undefined || c.verdict === "unknown") {
    return (
      <span class="absent" title={c.reason ?? "cannot be told"}>
        ?
      </span>
    );
  }
  const d = differenceParts(c.difference, m.unit);
  return (
    <span class="difference" title={c.reason ?? c.difference.method}>
      <b>{d.value}</b> <span class="interval">{d.interval}</span>
    </span>
  );
}
