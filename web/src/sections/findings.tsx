// Every doubt: cause, evidence, advice, and where it applies.
import type { JSX } from "preact";
import type { Finding } from "../model";
import { Chip, Glyph, Section, counted } from "../parts/controls";
import { usePage } from "../parts/context";
import { concerns, wholeRun, type View } from "../view";

const severities = ["invalid", "suspect", "note"];

export function Findings(): JSX.Element {
  const { view, state, set } = usePage();
  const all = view.model.findings;
  const [variant = "", load = ""] = state.at.split("/");
  const trials = new Map(view.model.trials.map((t) => [t.index, t]));
  const list = (state.at === "" ? all : all.filter((f) => concerns(f, variant, load, trials))).slice();
  list.sort((a, b) => severities.indexOf(a.severity) - severities.indexOf(b.severity));
  return (
    <Section
      id="findings"
      title="Findings"
      lead={all.length === 0 ? "None: no rule found a reason to doubt these numbers." : `${counted(all)}. Invalid: must not be used. Suspect: look again. Note: explains.`}
      tools={
        state.at !== "" && (
          <Chip on onToggle={() => set({ at: "" })} title="show all findings">
            {variant}, {load} ✕
          </Chip>
        )
      }
    >
      <ul class="findings">
        {list.map((f) => (
          <li key={`${f.rule}/${where(view, f)}/${f.cause}`} class={f.severity}>
            <div class="severity">
              <Glyph severity={f.severity} /> {f.severity}
            </div>
            <div class="what">
              <h3>{f.cause}</h3>
              <p>{f.evidence}</p>
              {f.advice && (
                <p class="advice">
                  <b>Advice:</b> {f.advice}
                </p>
              )}
            </div>
            <div class="where">
              <div>{where(view, f)}</div>
              <code>{f.rule}</code>
            </div>
          </li>
        ))}
      </ul>
    </Section>
  );
}

function where(view: View, f: Finding): string {
  if (wholeRun(f)) return "the whole run";
  const parts = [f.variant, f.load].filter((p) => p !== undefined && p !== "");
  const trials = f.trials ?? [];
  if (trials.length > 0) parts.push(`${trials.length === 1 ? "trial" : "trials"} ${ranges(trials)}`);
  if (parts.length === 1 && trials.length === 1) {
    const t = view.trial(trials[0] ?? -1);
    if (t) parts.unshift(t.variant, t.load);
  }
  return parts.join(", ");
}

/** "3–5, 9" */
export function ranges(numbers: number[]): string {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  const out: string[] = [];
  for (let i = 0; i < sorted.length; ) {
    let j = i;
    while (sorted[j + 1] === (sorted[j] ?? 0) + 1) j++;
    out.push(j > i + 1 ? `${sorted[i]}–${sorted[j]}` : sorted.slice(i, j + 1).join(", "));
    i = j + 1;
  }
  return out.join(", ");
}
