// Small controls: switches, chips, copy buttons, marks.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { copy } from "../export";
import type { Finding } from "../model";
import { type Look, worst } from "../view";
import { usePage } from "./context";
import { plural } from "../format";

/** One of a few choices. */
export function Choice<T extends string>(props: {
  label: string;
  value: T;
  options: { value: T; label: string; disabled?: boolean }[];
  onChange(value: T): void;
}): JSX.Element {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      {props.options.map((o) => (
        <button type="button" key={o.value} aria-pressed={o.value === props.value} disabled={o.disabled} onClick={() => props.onChange(o.value)}>
          {o.label}
        </button>
      ))}
    </div>
  );
}

/** A list to choose from, for more than a few. */
export function Select(props: {
  label: string;
  value: string;
  onChange(value: string): void;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <label class="select">
      <span>{props.label}</span>
      <select value={props.value} onChange={(e) => props.onChange(e.currentTarget.value)}>
        {props.children}
      </select>
    </label>
  );
}

/** On or off. */
export function Check(props: { label: string; on: boolean; onChange(on: boolean): void }): JSX.Element {
  return (
    <label class="check">
      <input type="checkbox" checked={props.on} onChange={(e) => props.onChange(e.currentTarget.checked)} />
      <span>{props.label}</span>
    </label>
  );
}

const shapes: Record<Look["symbol"], string> = {
  circle: "M4,0A4,4 0 1 1 -4,0A4,4 0 1 1 4,0Z",
  square: "M-3.6,-3.6H3.6V3.6H-3.6Z",
  triangle: "M0,-4.6L4.3,3.2H-4.3Z",
  diamond: "M0,-5.2L3.6,0L0,5.2L-3.6,0Z",
  star: "M0,-5L1.2,-1.6L4.8,-1.5L1.9,0.6L2.9,4L0,2L-2.9,4L-1.9,0.6L-4.8,-1.5L-1.2,-1.6Z",
  wye: "M1.3,1V4.5H-1.3V1L-4.3,-0.8L-3,-3L0,-1.3L3,-3L4.3,-0.8Z",
  times: "M-4,-2.6L-2.6,-4L0,-1.4L2.6,-4L4,-2.6L1.4,0L4,2.6L2.6,4L0,1.4L-2.6,4L-4,2.6L-1.4,0Z",
  hexagon: "M4.2,0L2.1,3.7H-2.1L-4.2,0L-2.1,-3.7H2.1Z",
};

/** A variant's line and shape. */
export function Swatch(props: { look: Look }): JSX.Element {
  const { color, symbol, dash } = props.look;
  return (
    <svg class="swatch" width="22" height="12" viewBox="-11 -6 22 12" aria-hidden="true">
      <line x1="-11" x2="11" y1="0" y2="0" stroke={color} stroke-width="2" stroke-dasharray={dash || undefined} />
      <path d={shapes[symbol]} fill={color} />
    </svg>
  );
}

/** A switch that looks like the thing it switches. */
export function Chip(props: { on: boolean; title?: string; onToggle(): void; children: ComponentChildren }): JSX.Element {
  return (
    <button type="button" class="chip" aria-pressed={props.on} title={props.title} onClick={props.onToggle}>
      {props.children}
    </button>
  );
}

/** Copies what text returns and says so. */
export function CopyButton(props: { label: string; name?: string; text(): string }): JSX.Element {
  const [said, say] = useState("");
  const act = async (): Promise<void> => {
    try {
      await copy(props.text());
      say("copied");
    } catch {
      say("not copied");
    }
    setTimeout(() => say(""), 1600);
  };
  return (
    <button type="button" class="quiet" aria-label={props.name ?? `copy ${props.label}`} onClick={() => void act()}>
      <span aria-live="polite">{said || props.label}</span>
    </button>
  );
}

/** A command in one line, with a button that copies it. */
export function Command(props: { label: string; text: string }): JSX.Element | null {
  if (props.text === "") return null;
  return (
    <div class="command">
      <span class="label">{props.label}</span>
      <code>{props.text}</code>
      <CopyButton label="copy" name={`copy: ${props.label}`} text={() => props.text} />
    </div>
  );
}

const glyphs: Record<string, string> = { note: "i", suspect: "!", invalid: "✕" };

/** The severity as a shape, not only a colour. */
export function Glyph(props: { severity: string }): JSX.Element {
  return (
    <span class={`glyph ${props.severity}`} aria-hidden="true">
      {glyphs[props.severity] ?? "?"}
    </span>
  );
}

/** "1 note, 2 suspect" with a way to them; nothing where there are none. */
export function FindingCount(props: { findings: Finding[]; variant: string; load: string }): JSX.Element | null {
  const { go } = usePage();
  const severity = worst(props.findings);
  if (severity === undefined) return null;
  return (
    <button type="button" class="finding-count" title={causes(props.findings)} onClick={() => go("findings", { at: `${props.variant}/${props.load}` })}>
      <Glyph severity={severity} /> {counted(props.findings)}
    </button>
  );
}

/** A mark beside a number that findings concern. */
export function Mark(props: { findings: Finding[] }): JSX.Element | null {
  const severity = worst(props.findings);
  if (severity === undefined) return null;
  const text = causes(props.findings);
  return (
    <span class="mark" role="img" aria-label={`${severity}: ${text}`} title={text}>
      <Glyph severity={severity} />
    </span>
  );
}

function causes(findings: Finding[]): string {
  return findings.map((f) => `${f.severity}: ${f.cause}`).join("\n");
}

/** "1 note, 2 suspect". */
export function counted(findings: Finding[]): string {
  const of = (s: string): number => findings.filter((f) => f.severity === s).length;
  const parts = [
    of("invalid") > 0 ? `${of("invalid")} invalid` : "",
    of("suspect") > 0 ? `${of("suspect")} suspect` : "",
    of("note") > 0 ? plural(of("note"), "note") : "",
  ];
  return parts.filter((p) => p !== "").join(", ");
}

/** A part of the page with its heading. */
export function Section(props: { id: string; title: string; lead?: ComponentChildren; tools?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  return (
    <section id={props.id} aria-labelledby={`${props.id}-title`}>
      <div class="section-head">
        <h2 id={`${props.id}-title`} tabIndex={-1}>
          {props.title}
        </h2>
        {props.tools && <div class="tools">{props.tools}</div>}
      </div>
      {props.lead && <p class="lead">{props.lead}</p>}
      {props.children}
    </section>
  );
}
