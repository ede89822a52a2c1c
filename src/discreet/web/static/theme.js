// Light or dark: the system's setting, until the user chooses.
const KEY = "discreet:theme";

export function setUpTheme(button) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null;
    }
  };
  const apply = () => {
    const dark = (chosen() ?? (system.matches ? "dark" : "light")) === "dark";
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    button.setAttribute("aria-pressed", String(dark));
    document.dispatchEvent(new Event("themechange"));
  };
  system.addEventListener("change", apply);
  button.addEventListener("click", () => {
    try {
      localStorage.setItem(KEY, document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    } catch {
      // Without storage the choice lasts no longer than the page.
    }
    apply();
  });
  apply();
}
