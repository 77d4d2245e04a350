// Has somebody stopped the page?
import { Store } from "./store.ts";

/** Nothing is asked again while it is set; what is shown stays. */
export const paused = new Store(false);
