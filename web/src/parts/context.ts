// The model and the reader's choices, for every part of the page.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { State } from "../state";
import { shown, type View } from "../view";
import type { Load, Variant } from "../model";

export interface Page {
  view: View;
  state: State;
  set(change: Partial<State>): void;
  /** Scrolls to a section and writes it into the fragment. */
  go(section: string, change?: Partial<State>): void;
}

export const PageContext = createContext<Page | null>(null);

/** The page; only for parts inside App. */
export function usePage(): Page & { variants: Variant[]; loads: Load[] } {
  const page = useContext(PageContext);
  if (page === null) throw new Error("usePage outside of App");
  return { ...page, ...shown(page.view, page.state) };
}
