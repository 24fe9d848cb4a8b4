// Whether the page is dark: Streamlit hands its background down as a custom property.
function isDark(parentElement) {
  const styled = parentElement.host ?? parentElement;
  const colour = getComputedStyle(styled).getPropertyValue("--st-background-color").trim();
  const hex = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})/i.exec(colour);
  const parts = hex ? hex.slice(1).map((part) => parseInt(part, 16)) : (colour.match(/\d+/g) ?? [255, 255, 255]).map(Number);
  return 0.299 * parts[0] + 0.587 * parts[1] + 0.114 * parts[2] < 128;
}
