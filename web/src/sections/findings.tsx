// Every doubt: cause, evidence, advice, and where it applies.
import type { JSX } from "preact";
import { pretty } from "../format";
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
        {grouped(list).map((g) => (
          <li key={g.key} class={g.first.severity}>
            <div class="severity">
              <Glyph severity={g.first.severity} /> {g.first.severity}
            </div>
            <div>
              <h3>{g.first.cause}</h3>
              {g.first.advice && (
                <p class="advice">
                  <b>Advice:</b> {g.first.advice}
                </p>
              )}
              <dl>
                {g.all.map((f, i) => (
                  <div key={i}>
                    <dt>{where(view, f)}</dt>
                    <dd>{pretty(f.evidence)}</dd>
                  </div>
                ))}
              </dl>
            </div>
            <code>{g.first.rule}</code>
          </li>
        ))}
      </ul>
    </Section>
  );
}

interface Group {
  key: string;
  first: Finding;
  all: Finding[];
}

/** Findings that say the same of several places are one entry with several places. */
function grouped(list: Finding[]): Group[] {
  const groups = new Map<string, Group>();
  for (const f of list) {
    const key = [f.severity, f.rule, f.cause, f.advice].join("\u0000");
    const g = groups.get(key);
    if (g) g.all.push(f);
    else groups.set(key, { key, first: f, all: [f] });
  }
  return [...groups.values()];
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
