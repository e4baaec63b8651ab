/** What a picture shows, whatever the document says: the pixels in the colours of the gate. */
import type { Locator } from '@playwright/test';

/** The same for all that a part shows while it is scrolled from its beginning to its end. */
export async function amberPixelsOfAll(part: Locator): Promise<number> {
  let count = 0;
  for (let top = 0; ; top += 400) {
    const end = await part.evaluate((element, to) => {
      element.scrollTop = to;
      return element.scrollHeight - element.clientHeight;
    }, top);
    count += await amberPixels(part);
    if (top >= end) return count;
  }
}

/** Pixels as saturated and of the hue of the gate's amber: 36° to 46°, on a light page. */
export async function amberPixels(part: Locator): Promise<number> {
  const picture = (await part.screenshot({ animations: 'disabled' })).toString('base64');
  // The page itself may not decode pictures of its own: its policy forbids them.
  const blank = await part.page().context().newPage();
  const count = await blank.evaluate(async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
    const pen = canvas.getContext('2d');
    if (!pen) throw new Error('no canvas');
    pen.drawImage(bitmap, 0, 0);
    const { data } = pen.getImageData(0, 0, bitmap.width, bitmap.height);
    let amber = 0;
    for (let index = 0; index < data.length; index += 4) {
      const [red, green, blue] = [data[index] ?? 0, data[index + 1] ?? 0, data[index + 2] ?? 0];
      const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)];
      if (most !== red || most < 200 || (most - least) / most < 0.5) continue;
      const hue = (60 * (green - blue)) / (most - least);
      if (hue >= 33 && hue <= 48) amber += 1;
    }
    return amber;
  }, picture);
  await blank.close();
  return count;
}
