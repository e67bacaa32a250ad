import { describe, expect, test } from "vitest";
import * as f from "../src/format";

const plain = (text: string): string => text.replace(/\u00a0/g, " ");
const estimate = (value: number, lo: number, hi: number) => ({ value, lo, hi, n: 6, method: "" });

test.each([
  [0, "s", "0 µs"],
  [71.2e-6, "s", "71.2 µs"],
  [0.9996e-6, "s", "1.00 µs"],
  [250e-9, "s", "250 ns"],
  [999.4e-6, "s", "999 µs"],
  [999.6e-6, "s", "1.00 ms"],
  [1.9234e-3, "s", "1.92 ms"],
  [0.0996, "s", "99.6 ms"],
  [12.345, "s", "12.3 s"],
  [0.62, "s/1k requests", "620 ms"],
  [1.5, "s/1k requests", "1.50 s"],
  [0.0968, "s/Gbit", "96.8 ms"],
  [6.21e9, "bit/s", "6.21 Gbit/s"],
  [294.1e6, "bit/s", "294 Mbit/s"],
  [25.2, "/GB", "25.2/GB"],
  [512, "bytes", "512 B"],
  [1024, "bytes", "1.00 KiB"],
  [47.25 * 1024 * 1024, "bytes", "47.3 MiB"],
  [1998.7, "/s", "1,999/s"],
  [11685, "/s", "11,700/s"],
  [123999, "/s", "124,000/s"],
  [1.25, "cores", "1.25 cores"],
  [Number.NaN, "s", "–"],
])("value %d %s is %s", (x, unit, want) => {
  expect(plain(f.value(x, unit))).toBe(want);
});

test.each([
  [1, "100 %"],
  [0, "0 %"],
  [0.5, "50.0 %"],
  [0.99, "99.0 %"],
  [0.999, "99.9 %"],
  [0.99981, "99.981 %"],
  [0.9999999999, "99.999999 %"],
])("a share of %d is %s", (x, want) => {
  expect(plain(f.share(x))).toBe(want);
});

test("a share below one never reads 100 %", () => {
  for (let e = 1; e < 16; e++) expect(f.share(1 - 10 ** -e), `1 - 1e-${e}`).not.toMatch(/^100\D/);
});

describe("differences", () => {
  test.each([
    [estimate(672e-6, 655e-6, 690e-6), "s", "+672 µs", "[+655, +690]"],
    [estimate(0.8e-6, -2.1e-6, 3.4e-6), "s", "+0.80 µs", "[−2.10, +3.40]"],
    [estimate(-1.5e-3, -2e-3, -1e-3), "s", "−1.50 ms", "[−2.00, −1.00]"],
    [estimate(665e-6, 629e-6, 1690e-6), "s", "+665 µs", "[+629, +1,690]"],
    [estimate(0, 0, 0), "s", "0 µs", "[0, 0]"],
    [estimate(-0.0001, -0.0002, 0), "share", "−0.0100 points", "[−0.0200, 0.0000]"],
    [estimate(0.62, 0.6, 0.64), "s/1k requests", "+620 ms", "[+600, +640]"],
    [estimate(-12, -15, -9), "/s", "−12.0 /s", "[−15.0, −9.0]"],
  ])("%o in %s", (e, unit, value, interval) => {
    const parts = f.differenceParts(e, unit);
    expect(plain(parts.value)).toBe(value);
    expect(parts.interval).toBe(interval);
  });

  test("one alone has a sign", () => {
    expect(plain(f.difference(2.94e-6, "s"))).toBe("+2.94 µs");
    expect(plain(f.difference(-2.94e-6, "s"))).toBe("−2.94 µs");
  });
});

test("value and interval share a unit", () => {
  expect(plain(f.interval(estimate(995e-6, 980e-6, 1.02e-3), "s"))).toBe("995 µs [980, 1,020]");
  expect(plain(f.interval(estimate(0.999, 0.99, 1), "share"))).toBe("99.9 % [99.0 %, 100 %]");
});

test.each([
  [1, "0.0 %"],
  [1.032, "+3.2 %"],
  [0.9, "−10 %"],
  [1.5, "+50 %"],
  [9.4, "9.40×"],
  [0.25, "0.250×"],
  [0, "–"],
])("a ratio of %d is %s", (r, want) => {
  expect(plain(f.ratio(r))).toBe(want);
});

test("a ratio's interval repeats no sign of multiplication", () => {
  expect(f.ratioParts(estimate(9.4, 9.2, 9.7))).toEqual({ value: "9.40×", interval: "[9.20, 9.70]" });
});

test.each([
  [12.34, "12.3 s"],
  [432, "7 m 12 s"],
  [3840, "1 h 04 m"],
  [59.9996, "60.0 s"],
])("%d seconds are %s", (s, want) => {
  expect(plain(f.duration(s))).toBe(want);
});

test("axis labels have no trailing zeros", () => {
  expect([0.01, 0.0005, 0.0025, 0.1].map((s) => plain(f.shortTime(s)))).toEqual(["10 ms", "500 µs", "2.5 ms", "100 ms"]);
  expect([10, 0.5, 1000, -2, 0].map(f.short)).toEqual(["10", "0.5", "1,000", "−2", "0"]);
});

test("percentiles have no floating-point dust", () => {
  expect([0.5, 0.999, 1 - 1e-5, 1 - 0.1 * 0.75].map(f.percentile)).toEqual(["50", "99.9", "99.999", "92.5"]);
});

test("dates are in UTC; Go's zero time is no date", () => {
  expect(f.date("2026-11-20T23:40:11+01:00")).toBe("2026-11-20 22:40 UTC");
  expect(f.date("0001-01-01T00:00:00Z")).toBe("–");
  expect(f.clock("2026-11-20T23:40:11.5Z")).toBe("23:40:11");
  expect(f.clock("")).toBe("–");
});

test("small words", () => {
  expect(f.plural(1, "note")).toBe("1 note");
  expect(f.plural(1200, "trial")).toBe("1,200 trials");
  expect(f.probability(0.00004)).toBe("< 0.001");
  expect(f.probability(0.03125)).toBe("0.031");
});

test("signs as typographers set them", () => {
  expect(f.pretty(">= 99.98 %, +-4 us, <= 1")).toBe("≥ 99.98\u00a0%, ±4 us, ≤ 1");
});
