import { expect, test } from "vitest";
import { formatState, initial, parseState, toggled, type State } from "../src/state";

test("what was not changed is not written", () => {
  expect(formatState(initial)).toBe("");
  expect(parseState("")).toEqual(initial);
  expect(parseState("#")).toEqual(initial);
});

test("every choice survives the way through the fragment", () => {
  const all: State = {
    hide: ["envoy", "nft-service"],
    hideLoads: ["peak"],
    metric: "response.p99.9",
    scale: "relative",
    dots: false,
    rows: "all",
    filter: "envoy p99 & more=x#y",
    kind: "failed",
    y: "linear",
    trial: 17,
    under: "crash",
    round: 3,
    resource: "memory",
    hideParts: ["generator"],
    differs: true,
    traffic: "tcp-across",
    path: "envoy",
    at: "envoy/steady",
    sort: { "main.steady": "-response.p50", results: "p" },
    section: "curves",
  };
  const keys = Object.keys(initial) as (keyof State)[];
  for (const key of keys) expect(all[key], `${key} must differ from its default for this test to mean something`).not.toEqual(initial[key]);
  expect(parseState(`#${formatState(all)}`)).toEqual(all);
});

test("what is unknown or ill-formed is ignored", () => {
  expect(parseState("#scale=huge&kind=&trial=-1&trial=x&nonsense=1&dots=2&__proto__=1&constructor=1&hide=,,")).toEqual({ ...initial, dots: false });
});

test("toggling twice changes nothing", () => {
  expect(toggled([], "a")).toEqual(["a"]);
  expect(toggled(["a", "b"], "a")).toEqual(["b"]);
  expect(toggled(toggled(["b"], "a"), "a")).toEqual(["b"]);
});
