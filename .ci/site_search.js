// SPDX-License-Identifier: Apache-2.0 OR MIT
// Search in pages that are opened from the disk: browsers let these start no worker and fetch no index, as MkDocs' search does. Scripts
// they may load: `search/index.js` has the index as one (.ci/build_site.py).
"use strict";
if (location.protocol === "file:") {
  window.Worker = undefined;
  const load = (name) =>
    new Promise((done) => {
      const script = document.createElement("script");
      script.src = `${base_url}/search/${name}`;
      script.onload = done;
      document.head.append(script);
    });
  window.addEventListener("load", async () => {
    await Promise.all([load("lunr.js"), load("index.js")]);
    const pages = new Map(search_index.docs.map((page) => [page.location, page]));
    const index = lunr(function () {
      this.ref("location");
      this.field("title", { boost: 10 });
      this.field("text");
      search_index.docs.forEach((page) => this.add(page));
    });
    // What MkDocs' own script calls where there is no worker.
    window.search = (words) =>
      index.search(words).map(({ ref }) => ({ ...pages.get(ref), summary: pages.get(ref).text.slice(0, 200) }));
    window.min_search_length = 2;
    initSearch();
  });
}
