// Numbers in a form that people can read.

/** A duration with three digits: `1.23 ms`. */
export function duration(ns) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "us"]];
  for (const [size, unit] of units) {
    if (ns >= size * 0.9995) {
      const value = ns / size;
      return `${value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${unit}`;
    }
  }
  return `${Math.round(ns)} ns`;
}

/** A moment on the axis, with enough digits to distinguish it from the next tick. */
export function moment(ns, step) {
  const [size, unit] = step >= 1e9 ? [1e9, "s"] : step >= 1e6 ? [1e6, "ms"] : step >= 1e3 ? [1e3, "us"] : [1, "ns"];
  return `${grouped(Math.round(ns / size))} ${unit}`;
}

/** A whole number in groups of three digits. */
export function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** The least of 1, 2, 5, 10, 20, 50, … that is not below `least`. */
export function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= least * 0.999);
}
