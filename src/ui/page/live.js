// Notices changes: the daemon sends them as they happen; where that does not work, the page polls.

import { useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { ask, watch } from "./api.js";

/** Interval of polls while there is no watch, and the wait before the next watch, in milliseconds. */
const POLL = 5000;
/** How long changes are collected into one update of the page, in milliseconds. */
const GATHER = 700;

/** The same number, updated at most once per interval: for requests that are expensive for the daemon. */
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

/** A number that grows once per interval while somebody looks: for what changes without an entry. */
export function useTick(milliseconds, running) {
  const [tick, set] = useState(0);
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(() => document.hidden || set((tick) => tick + 1), milliseconds);
    return () => clearInterval(timer);
  }, [running]);
  return tick;
}

/** A number that grows with each change, and how changes are noticed: `live`, `polling`, `off`. */
export function useLive(enabled) {
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
    const listen = () => watch(last.current, control.signal,
      () => { setMode("live"); changed(); },
      (entry) => { last.current = entry.sequence; changed(); });
    (async () => {
      while (!control.signal.aborted) {
        // The watch ends when the daemon stops. It is refused if too many are open, or the user has no right to it.
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
  }, [enabled]);
  return { version, mode };
}
