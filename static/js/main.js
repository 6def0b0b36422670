/* What every page has. Modules of single pages (upload, split-slider, stat-chart) are loaded there. */

import { csrfToken } from "./http.js";
import "./toast.js";
import "./nav.js";
import "./search-hotkey.js";
import "./copy.js";
import "./form-guard.js";
import "./confirm.js";
import "./ages.js";
import "./live-feed.js";
import "./rollback-key.js";

document.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.verb !== "get") event.detail.headers["X-CSRFToken"] = csrfToken();
});
