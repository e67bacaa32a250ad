// Where the numbers come from: plan, host, order of trials, how to check.
import type { JSX } from "preact";
import { clock, value } from "../format";
import type { Trial } from "../model";
import { Command, CopyButton, Section, Swatch } from "../parts/controls";
import { usePage, type Page } from "../parts/context";
import { Table, type Column } from "../parts/table";
import type { View } from "../view";

export function Provenance(): JSX.Element {
  const page = usePage();
  const { model } = page.view;
  const { run } = model;
  const own = [
    { key: "run", value: run.id },
    { key: "program", value: run.version },
    { key: "plan digest", value: run.plan_digest },
    { key: "seed", value: String(run.seed) },
    { key: "ended", value: run.stopped },
  ].filter((e) => e.value !== "" && !model.provenance.some((x) => x.key.startsWith(e.key)));
  const entries = [...own, ...model.provenance];
  return (
    <Section id="provenance" title="Provenance" lead="Enough to check these numbers and to get them again.">
      <dl class="entries">
        {entries.map((e, i) => (
          <div key={i} class={e.value.length > 46 ? "wide" : ""}>
            <dt>{e.key}</dt>
            <dd>
              {/digest/.test(e.key) ? <code>{e.value}</code> : e.value}
              {/digest/.test(e.key) && <CopyButton label="copy" name={`copy: ${e.key}`} text={() => e.value} />}
            </dd>
          </div>
        ))}
      </dl>
      <div class="commands">
        <Command label="check this run" text={run.verify} />
        <Command label="run it again" text={run.command} />
      </div>
      {model.trials.length > 0 && (
        <>
          <Order />
          <details>
            <summary>All {model.trials.length} trials in order</summary>
            <Table id="trials" label="trials" class="dense" columns={columns(page)} rows={model.trials} keyOf={(t) => String(t.index)} classOf={(t) => (t.state === "done" ? "" : "struck")} />
          </details>
        </>
      )}
    </Section>
  );
}

/** Blocks as rows, trials in the order in which they ran: chance decides it. */
function Order(): JSX.Element {
  const page = usePage();
  const { trials } = page.view.model;
  const blocks = [...new Set(trials.map((t) => t.block))].sort((a, b) => a - b);
  return (
    <figure class="order">
      <figcaption>
        <div class="caption">
          <h3>order of trials</h3> <span>one row a block, random inside it (seeded)</span>
        </div>
      </figcaption>
      <div class="scroll" tabIndex={0} role="region" aria-label="order of trials">
        {blocks.map((b) => (
          <div class="block" key={b}>
            <span class="label">{b < 0 ? "calibration" : `block ${b}`}</span>
            {trials
              .filter((t) => t.block === b)
              .sort((x, y) => x.order - y.order)
              .map((t) => (
                <TrialBox key={t.index} trial={t} page={page} />
              ))}
          </div>
        ))}
      </div>
    </figure>
  );
}

function TrialBox(props: { trial: Trial; page: Page }): JSX.Element {
  const { trial: t, page } = props;
  const timeline = [...page.view.model.timelines, ...page.view.model.flows].some((x) => x.trial === t.index);
  const title = `trial ${t.index}: ${t.variant}, ${t.load}, ${t.state}${t.error ? `: ${t.error}` : ""}${timeline ? "; click: over time" : ""}`;
  return (
    <button type="button" class={`trial ${t.state}`} title={title} aria-label={title} disabled={!timeline} onClick={() => page.go("latency", { trial: t.index })}>
      <Swatch look={page.view.look(t.variant)} />
      <span>{t.load}</span>
    </button>
  );
}

function columns(page: Page): Column<Trial>[] {
  const { view } = page;
  return [
    { id: "trial", head: "trial", numeric: true, text: (t) => String(t.index), sort: (t) => t.index },
    { id: "block", head: "block", numeric: true, text: (t) => String(t.block), sort: (t) => t.block },
    { id: "order", head: "order", numeric: true, text: (t) => String(t.order), sort: (t) => t.order },
    { id: "started", head: "started", under: "UTC", text: (t) => clock(t.started), sort: (t) => t.started },
    {
      id: "variant",
      head: "variant",
      text: (t) => t.variant,
      cell: (t) => (
        <>
          <Swatch look={view.look(t.variant)} /> {t.variant}
        </>
      ),
    },
    { id: "load", head: "load", text: (t) => t.load },
    ...measured(view),
    {
      id: "state",
      head: "state",
      text: (t) => `${t.state}${t.error ? `: ${t.error}` : ""}`,
      cell: (t) => (
        <span class={`state ${t.state}`} title={t.logs?.join("\n")}>
          {t.state}
          {t.error && <small> {t.error}</small>}
        </span>
      ),
    },
  ];
}

/** What every trial measured, of the metrics that some trial has. */
function measured(view: View): Column<Trial>[] {
  const columns: Column<Trial>[] = [];
  for (const [name, head] of [["rate", "rate"], ["response.p50", "p50"], ["response.p99", "p99"], ["success", "success"], ["goodput", "goodput"], ["retransmits", "retransmits"], ["loss", "loss"], ["jitter", "jitter"]] as const) {
    const m = view.metric(name);
    const values = new Map(view.model.cells.filter((c) => c.metric === name).flatMap((c) => c.values.map((v) => [v.trial, v.value] as const)));
    if (m === undefined || values.size === 0) continue;
    const of = (t: Trial): number | undefined => values.get(t.index);
    columns.push({ id: name, head, title: m.label, numeric: true, text: (t) => value(of(t) ?? Number.NaN, m.unit), sort: of, raw: [{ head: `${name} (${m.unit})`, of }] });
  }
  return columns;
}
