// The top of the page: question, answer, whether to believe it, how to repeat it.
import type { JSX } from "preact";
import { Command, Glyph } from "../parts/controls";
import { usePage } from "../parts/context";
import { count, date, duration, percentile, plural, pretty } from "../format";
import { wholeRun } from "../view";

export function Answer(): JSX.Element {
  const { view } = usePage();
  const { model } = view;
  const { run } = model;
  return (
    <header id="answer">
      <p class="eyebrow">
        <b>{model.name}</b>
        <span>{date(run.started)}</span>
        <span>{run.target}</span>
      </p>
      <h1>{model.question || model.name}</h1>
      <div class="answer">
        {model.answer.map((sentence, i) => (
          <p key={i} class={i === 0 ? "first" : ""}>
            {pretty(sentence)}
          </p>
        ))}
        {model.answer.length === 0 && <p>No answer: nothing could be compared.</p>}
      </div>
      <Warnings />
      <Gates />
      <Facts />
      <div class="commands">
        <Command label="run it again" text={run.command} />
        <Command label="check this run" text={run.verify} />
      </div>
    </header>
  );
}

function Facts(): JSX.Element {
  const { model } = usePage().view;
  const { run } = model;
  const facts: [string, string][] = [
    ["variants", count(model.variants.length)],
    ["loads", count(model.loads.length)],
    ["complete blocks", count(run.blocks)],
    ["trials", run.failed_trials > 0 ? `${count(run.done_trials)} of ${count(run.planned_trials)}, ${count(run.failed_trials)} failed` : `${count(run.done_trials)} of ${count(run.planned_trials)}`],
    ["took", duration(run.took_s)],
    ["intervals", `${percentile(run.level)} %`],
    ["ended", run.stopped || "–"],
  ];
  return (
    <dl class="facts">
      {facts.map(([key, value]) => (
        <div key={key}>
          <dt>{key}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** What must be known before any number is read. */
function Warnings(): JSX.Element | null {
  const { view, go } = usePage();
  const { run, findings, ledger } = view.model;
  const warnings: { severity: string; text: string; to: string }[] = [];
  if (!run.complete) {
    warnings.push({ severity: "invalid", text: `This run is not complete: ${count(run.done_trials)} of ${plural(run.planned_trials, "planned trial")} done${run.stopped ? ` (${run.stopped})` : ""}.`, to: "provenance" });
  }
  if (run.failed_trials > 0) {
    warnings.push({ severity: "suspect", text: `${plural(run.failed_trials, "trial")} failed and ${run.failed_trials === 1 ? "is" : "are"} in no estimate.`, to: "provenance" });
  }
  const broken = ledger.filter((r) => r.cells.some((c) => c.broken));
  if (broken.length > 0) {
    warnings.push({ severity: "invalid", text: `What was claimed was not seen: ${broken.map((r) => r.key).join(", ")}.`, to: "ledger" });
  }
  for (const f of findings.filter((x) => wholeRun(x) && x.severity !== "note")) {
    warnings.push({ severity: f.severity, text: f.cause, to: "findings" });
  }
  if (warnings.length === 0) return null;
  return (
    <ul class="warnings" aria-label="warnings">
      {warnings.map((w) => (
        <li key={w.text} class={w.severity}>
          <Glyph severity={w.severity} />
          <span>{w.text}</span>
          <button type="button" class="quiet" onClick={() => go(w.to)}>
            {w.to}
          </button>
        </li>
      ))}
    </ul>
  );
}

function Gates(): JSX.Element | null {
  const { gates } = usePage().view.model;
  if (gates.length === 0) return null;
  const failed = gates.filter((g) => !g.passed).length;
  return (
    <div class="gates">
      <h2>
        {failed === 0 ? `All ${plural(gates.length, "gate")} passed` : `${failed} of ${plural(gates.length, "gate")} failed`}
      </h2>
      <ul aria-label="gates">
        {gates.map((g) => (
          <li key={g.text} class={g.passed ? "passed" : "failed"}>
            <span class="result">{g.passed ? "✓ pass" : "✕ fail"}</span>
            <code>{g.text}</code>
            <span class="detail">{pretty(g.detail)}</span>
          </li>
        ))}
      </ul>
    </div>
  );
}
