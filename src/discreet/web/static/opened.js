// Shown if the page is opened as a file: browsers then refuse to load modules, without an explanation.
if (location.protocol === "file:") {
  document.getElementById("loading").textContent =
    "Browsers show this page only if it comes from a web server. On your own machine, run “python3 -m http.server” in " +
    "this folder, and open http://localhost:8000.";
}
