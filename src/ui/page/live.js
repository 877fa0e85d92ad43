// What is new: told by the daemon as it happens, and asked for where that does not work.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, watch } from "./api.js";

/** How often to ask while nothing is told, and how long to wait before listening again, in milliseconds. */
const POLL = 5000;
/** How much is gathered into one change of the page. */
const GATHER = 700;

/** The same number, followed so often at most: for questions that cost the daemon much. */
export function useSlow(version, milliseconds) {
  const [slow, set] = useState(version);
  const last = useRef(Date.now());
  useEffect(() => {
    if (slow === version) return undefined;
    const timer = setTimeout(() => {
      last.current = Date.now();
      set(version);
    }, Math.max(0, last.current + milliseconds - Date.now()));
    return () => clearTimeout(timer);
  }, [version]);
  return slow;
}

/** A number that grows when something has changed, and how that is known: `live`, `polling`, `off`. */
export function useLive(enabled, namespace) {
  const [version, setVersion] = useState(0);
  const [mode, setMode] = useState("off");
  const last = useRef(0);
  useEffect(() => {
    if (!enabled) {
      setMode("off");
      return undefined;
    }
    const control = new AbortController();
    let pending = null;
    const changed = () => {
      pending ??= setTimeout(() => {
        pending = null;
        setVersion((version) => version + 1);
      }, GATHER);
    };
    const pause = () => new Promise((resume) => {
      const timer = setTimeout(resume, POLL);
      control.signal.addEventListener("abort", () => { clearTimeout(timer); resume(); });
    });
    const listen = () => watch({ namespace }, last.current, control.signal,
      () => { setMode("live"); changed(); },
      (entry) => { last.current = entry.sequence; changed(); });
    (async () => {
      while (!control.signal.aborted) {
        // It ends when the daemon stops, or is refused: too many watch, or it is not allowed.
        await listen().catch((error) => {
          if (error.status === 410) last.current = 0;
        });
        if (control.signal.aborted) return;
        setMode("polling");
        await ask("v1/status", { signal: control.signal }).then(
          ({ asOf }) => {
            if (asOf.sequence !== last.current) changed();
            last.current = asOf.sequence;
          },
          (error) => error.name === "AbortError" || changed(),
        );
        await pause();
      }
    })();
    return () => {
      control.abort();
      clearTimeout(pending);
    };
  }, [enabled, namespace]);
  return { version, mode };
}
