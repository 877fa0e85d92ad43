// Formats Kubernetes quantities. The exact text is kept beside the formatted one; numbers are for drawing only.

const FACTORS = {
  n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};

/** A quantity as a number, which may be rounded; NaN if the text is not a quantity. */
export function number(text) {
  const match = /^([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)$/.exec(String(text ?? "0"));
  if (!match) return NaN;
  return Number(match[1]) * (match[2] ? 10 ** Number(match[2]) : FACTORS[match[3] ?? ""]);
}

/** Whether amounts of a resource are bytes. */
export const isBytes = (resource) => /(^|[./])((requests|limits)\.)?(memory|storage|ephemeral-storage)$|hugepages-/.test(resource);

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/** A number with at most three decimals; `~` marks what is rounded. */
const rounded = (value) => {
  const shown = Number(value.toFixed(3));
  return (Math.abs(shown - value) > Math.abs(value) * 1e-9 ? "~" : "") + shown;
};

/**
 * A number of a resource, by one rule for all views: CPU in cores, counts plain, and bytes in the largest unit of which
 * `least` is at least a quarter, or in the next one if only that has all its digits. All amounts of a column have the
 * same `least`; one that would be shown as nothing has a unit of its own.
 */
export function show(value, resource, least = Math.abs(value)) {
  if (!Number.isFinite(value)) return "–";
  if (!isBytes(resource) || value === 0) return rounded(value);
  const largest = BINARY.findLastIndex((_, power) => power === 0 || least >= 1024 ** power / 4);
  const isWhole = (power) => !rounded(least / 1024 ** power).startsWith("~");
  const power = largest > 0 && !isWhole(largest) && isWhole(largest - 1) ? largest - 1 : largest;
  const text = rounded(value / 1024 ** power);
  return power > 0 && Number(text.replace("~", "")) === 0 ? show(value, resource) : text + BINARY[power];
}

/** The least limit of a table in bytes, if it has any. */
export function leastBytes(figures) {
  const bytes = figures.filter(({ resource }) => isBytes(resource)).map(({ hard }) => number(hard)).filter((hard) => hard > 0);
  return bytes.length ? Math.min(...bytes) : undefined;
}

/** A quantity of a resource, for people. */
export const shown = (text, resource, least) => show(number(text), resource, least);

/**
 * The taken part of a limit: what is not available. Without that number: used, reserved, and for a group the amount
 * guaranteed to others.
 */
export const taken = ({ hard, available, used, reserved, guaranteedToOthers }) =>
  available !== undefined ? number(hard) - number(available)
    : number(used ?? "0") + number(reserved ?? "0") + number(guaranteedToOthers ?? "0");

/** The taken share of a limit: infinite if the limit is zero. */
export function share(figure) {
  const all = Math.max(0, taken(figure));
  const hard = number(figure.hard);
  return hard > 0 ? all / hard : all > 0 ? Infinity : 0;
}

/**
 * A figure of a quota with the amount that can be reserved: what a group above the namespace leaves may be less. The
 * share stays that of the quota itself.
 */
export function withRoom(figure, room) {
  const least = room?.[figure.resource];
  const isLess = least && number(least.available) < number(figure.available);
  return { ...figure, room: isLess ? least.available : figure.available, boundBy: isLess ? least.boundBy : undefined };
}

/** A share in percent. */
export const percent = (value) => value === Infinity ? "over" : `${Math.floor(value * 100 + 1e-9)}%`;

/** A list of amounts as one line. */
export const amounts = (list) =>
  Object.entries(list ?? {}).map(([resource, amount]) => `${resource}=${shown(amount, resource)}`).join(", ");
