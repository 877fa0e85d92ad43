// The route of the page: the fragment of the URL holds all of it, so that every view can be bookmarked and shared.

import { useEffect, useState } from "./vendor/htm-preact.js";

/** The view of an address: its path and its query. */
export function read(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map((part) => {
    try { return decodeURIComponent(part); } catch { return part; }
  });
  return { name: parts[0] || "overview", target: parts[1] ?? "", query: Object.fromEntries(new URLSearchParams(query)) };
}

/** The address of a view. Empty parameters are left out. */
export function address(name, target, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(given).toString();
  const path = [name === "overview" ? "" : name, target].filter(Boolean).map(encodeURIComponent).join("/");
  return `#/${path}${text && "?" + text}`;
}

/** The moment that a view shows; empty for now. Links keep the moment. */
export const moment = ({ at, sequence }) => ({ at, sequence });

/** The same view with other parameters. */
export function change(route, query) {
  location.hash = address(route.name, route.target, { ...route.query, ...query });
}

/** The view of the current address; follows its changes. */
export function useRoute() {
  const [route, set] = useState(read(location.hash));
  useEffect(() => {
    const changed = () => set(read(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}
