/* The arithmetic of the split sliders, in basis points (100 % = 10 000): whole numbers, so that the sum
   is always exactly 100 %. Pure functions; the rules of the server (deployments/rules/traffic/splits.py) decide. */

export const WHOLE = 10000;

export const toBasisPoints = (percent) => Math.round(Number(percent) * 100);
export const toPercent = (basisPoints) => basisPoints / 100;

/** Shares of `total` in proportion to `parts`, as whole numbers with exactly that sum (largest remainder). */
function share(parts, total) {
  const sum = parts.reduce((a, b) => a + b, 0);
  const exact = parts.map((part) => (sum ? (part * total) / sum : total / parts.length));
  const whole = exact.map(Math.floor);
  let rest = total - whole.reduce((a, b) => a + b, 0);
  const order = exact.map((value, index) => [value - whole[index], index]).sort((a, b) => b[0] - a[0] || a[1] - b[1]);
  for (const [, index] of order) {
    if (rest <= 0) break;
    whole[index] += 1;
    rest -= 1;
  }
  return whole;
}

/** Gives `total` to `versions` in proportion to `parts`, none above its cap; returns what is left over. */
function pour(result, versions, parts, cap, total) {
  let open = versions;
  let left = total;
  while (open.length) {
    const shares = share(open.map((version) => parts[version] ?? 0), left);
    const full = open.filter((version, index) => shares[index] > cap(version));
    if (!full.length) {
      open.forEach((version, index) => (result[version] = shares[index]));
      return 0;
    }
    for (const version of full) {
      result[version] = cap(version);
      left -= cap(version);
    }
    open = open.filter((version) => !full.includes(version));
  }
  return left;
}

/**
 * One slider moved: the others keep their proportion.
 *
 * weights: {version: basis points}, sum 10 000.  caps: {version: highest basis points} of those that
 * cannot be raised.  base: the split in force, whose proportions count among versions that stand at zero.
 * Returns new weights of the same sum; the moved one comes as near to `wanted` as all caps permit.
 */
export function moveShare(weights, moved, wanted, { caps = {}, base = {} } = {}) {
  const others = Object.keys(weights).filter((version) => version !== String(moved));
  const cap = (version) => Math.min(caps[version] ?? WHOLE, WHOLE);
  const room = others.reduce((sum, version) => sum + cap(version), 0);
  const target = Math.max(Math.min(wanted, cap(moved)), WHOLE - room, 0);
  const result = { ...weights, [moved]: target };
  for (const version of others) result[version] = 0;
  const carrying = others.filter((version) => weights[version] > 0);
  const idle = others.filter((version) => !(weights[version] > 0));
  const left = pour(result, carrying, weights, cap, WHOLE - target);
  // Only what those that carry traffic cannot take goes to those that carry none.
  pour(result, idle, base, cap, left);
  return result;
}

/** Basis points of sticky callers that have to change version between two splits; no layout moves fewer. */
export const leastMoved = (before, after) =>
  Object.entries(after).reduce((sum, [version, points]) => sum + Math.max(points - (before[version] ?? 0), 0), 0);

/** What differs between two splits: [version, before, after] in percent. */
export function changes(before, after) {
  const versions = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort((a, b) => a - b);
  return versions
    .map((version) => [version, toPercent(before[version] ?? 0), toPercent(after[version] ?? 0)])
    .filter(([, from, to]) => from !== to);
}
