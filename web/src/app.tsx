// The page: a side bar to choose with, and the sections, the answer first.
import type { JSX } from "preact";
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import type { Model } from "./model";
import { Chip, Swatch } from "./parts/controls";
import { PageContext, usePage, type Page } from "./parts/context";
import { Answer } from "./sections/answer";
import { Breakdowns } from "./sections/breakdown";
import { CostSection } from "./sections/cost";
import { Curves } from "./sections/curves";
import { Effects } from "./sections/effects";
import { Failovers } from "./sections/failover";
import { Findings } from "./sections/findings";
import { Latency } from "./sections/latency";
import { Ledger } from "./sections/ledger";
import { Provenance } from "./sections/provenance";
import { PublishedSection } from "./sections/published";
import { Resources } from "./sections/resources";
import { Results } from "./sections/results";
import { Summary } from "./sections/summary";
import { Topology } from "./sections/topology";
import { formatState, parseState, toggled, type State } from "./state";
import { viewOf } from "./view";

export function App(props: { model: Model }): JSX.Element {
  const page = useFragment(props.model);
  useEffect(() => openForPrint(), []);
  return (
    <PageContext.Provider value={page}>
      <a class="skip" href="#section=summary" onClick={(e) => follow(e, () => page.go("summary"))}>
        Skip to the numbers
      </a>
      <SideBar />
      <main>
        <Answer />
        <Summary />
        <Effects />
        <Results />
        <PublishedSection />
        <Curves />
        <Failovers />
        <Latency />
        <Breakdowns />
        <Resources />
        <CostSection />
        <Ledger />
        <Topology />
        <Findings />
        <Provenance />
        <footer>
          Windtunnel {props.model.run.version}, run {props.model.run.id}. This page holds all its data and never uses the network.
        </footer>
      </main>
    </PageContext.Provider>
  );
}

/** The reader's choices, in step with the URL fragment both ways. */
function useFragment(model: Model): Page {
  const view = useMemo(() => viewOf(model), [model]);
  const [state, setState] = useState<State>(() => parseState(location.hash));
  useEffect(() => {
    const changed = (): void => setState(parseState(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => {
    const fragment = formatState(state);
    if (fragment !== location.hash.replace(/^#/, "")) history.replaceState(null, "", `#${fragment}`);
  }, [state]);
  useEffect(() => {
    if (state.section !== "") scrollTo(state.section);
  }, []);
  const set = useCallback((change: Partial<State>) => setState((s) => ({ ...s, ...change })), []);
  const go = useCallback((section: string, change: Partial<State> = {}) => {
    setState((s) => ({ ...s, ...change, section }));
    // After the change is drawn: it may move the section.
    requestAnimationFrame(() => requestAnimationFrame(() => scrollTo(section)));
  }, []);
  return useMemo(() => ({ view, state, set, go }), [view, state, set, go]);
}

function scrollTo(section: string): void {
  document.getElementById(section)?.scrollIntoView();
  document.getElementById(`${section}-title`)?.focus({ preventScroll: true });
}

function follow(e: Event, act: () => void): void {
  e.preventDefault();
  act();
}

/** Closed details would be missing on paper. */
function openForPrint(): () => void {
  let opened: HTMLDetailsElement[] = [];
  const before = (): void => {
    opened = [...document.querySelectorAll<HTMLDetailsElement>("details:not([open])")];
    for (const d of opened) d.open = true;
  };
  const after = (): void => {
    for (const d of opened) d.open = false;
  };
  addEventListener("beforeprint", before);
  addEventListener("afterprint", after);
  return () => {
    removeEventListener("beforeprint", before);
    removeEventListener("afterprint", after);
  };
}

const contents = [
  ["answer", "Answer"],
  ["summary", "At a glance"],
  ["effects", "Differences"],
  ["results", "All numbers"],
  ["published", "Published"],
  ["curves", "Percentiles"],
  ["failover", "Failover"],
  ["latency", "Over time"],
  ["breakdown", "Where time goes"],
  ["resources", "Resources"],
  ["cost", "What it costs you"],
  ["ledger", "Ledger"],
  ["topology", "Topology"],
  ["findings", "Findings"],
  ["provenance", "Provenance"],
] as const;

/** Whether a section has anything to show; most say so themselves. */
function has(model: Model, section: (typeof contents)[number][0]): boolean {
  if (section === "published") return (model.published ?? []).length > 0;
  if (section === "breakdown") return (model.breakdowns ?? []).length > 0;
  if (section === "cost") return model.fleet !== undefined;
  return section !== "failover" || model.failovers.length > 0;
}

function SideBar(): JSX.Element {
  const { view, state, set, go } = usePage();
  const { variants, loads, findings } = view.model;
  return (
    <aside>
      <div class="brand">
        <Logo /> Windtunnel
      </div>
      <div class="pick" role="group" aria-label="variants">
        <span class="label">Variants</span>
        {variants.map((v) => (
          <Chip key={v.name} on={!state.hide.includes(v.name)} title={v.stack.join(" + ") || "no layer"} onToggle={() => set({ hide: toggled(state.hide, v.name) })}>
            <Swatch look={view.look(v.name)} /> {v.name}
          </Chip>
        ))}
      </div>
      <div class="pick" role="group" aria-label="loads">
        <span class="label">Loads</span>
        {loads.map((l) => (
          <Chip key={l.name} on={!state.hideLoads.includes(l.name)} title={l.text} onToggle={() => set({ hideLoads: toggled(state.hideLoads, l.name) })}>
            {l.name}
          </Chip>
        ))}
      </div>
      <nav aria-label="contents">
        <span class="label">Contents</span>
        {contents.filter(([id]) => has(view.model, id)).map(([id, title]) => (
          <a key={id} href={`#section=${id}`} onClick={(e) => follow(e, () => go(id))}>
            {title}
            {id === "findings" && findings.length > 0 && <span class="badge">{findings.length}</span>}
          </a>
        ))}
      </nav>
    </aside>
  );
}

function Logo(): JSX.Element {
  return (
    <svg width="22" height="18" viewBox="0 0 22 18" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round">
      <path d="M1 5C6 5 6 1.5 10.5 1.5S16 5 21 5" />
      <path d="M1 9C6 9 6.500 6 10.500 6S15.500 9 21 9" opacity="0.75" />
      <path d="M1 13C6 13 6.500 16 10.500 16S15.500 13 21 13" opacity="0.5" />
    </svg>
  );
}
