// Ticks and other things that charts share.

/** Charts take colour and type from the page; downloads bring their own. */
export const plotStyle = { background: "none", fontFamily: "inherit", fontSize: "12px", overflow: "visible" };

/** 1-2-5 ticks of a log axis from lo to hi; only powers of ten over many decades. */
export function logTicks(lo: number, hi: number): number[] {
  const steps = Math.log10(hi / lo) > 4 ? [1] : [1, 2, 5];
  const ticks: number[] = [];
  for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e++) {
    for (const s of steps) {
      // Number("2e-5") is exact where 2 * 10 ** -5 is not.
      const t = Number(`${s}e${e}`);
      if (t >= lo && t <= hi) ticks.push(t);
    }
  }
  return ticks;
}

/** The quantiles that the percentile axis names, up to the largest one drawn. */
export function quantileTicks(largest: number): number[] {
  const all = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999];
  return all.filter((q) => q <= largest + 1e-12);
}

/** Moves labels apart so that none is nearer than gap to the next, in the order of their wishes. */
export function spread(wishes: number[], gap: number, lo: number, hi: number): number[] {
  const order = wishes.map((_, i) => i).sort((a, b) => (wishes[a] ?? 0) - (wishes[b] ?? 0));
  const out = [...wishes];
  let last = lo - gap;
  for (const i of order) {
    last = Math.max(out[i] ?? 0, last + gap);
    out[i] = last;
  }
  let next = hi + gap;
  for (const i of [...order].reverse()) {
    next = Math.min(out[i] ?? 0, next - gap);
    out[i] = next;
  }
  return out;
}
