// @ts-check
/** Colours of heads that are shown together: at most eight, of Okabe and Ito, as the style sheet has them. */

/** Heads that can be told apart by colour. */
export const COLOURED = 8;

/** The colours of eight heads, as a canvas draws them in the theme of the page as it is now. */
export function headColours() {
  const probe = document.createElement("i");
  document.body.append(probe);
  const colours = Array.from({ length: COLOURED }, (_, place) => {
    probe.className = `of-head-${place}`;
    probe.style.color = "var(--of-head)";
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return colours;
}
