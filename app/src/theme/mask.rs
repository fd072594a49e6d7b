//! The colours that classes have over an image.

/// Red, green and blue of a class over an image, on either theme; none of the background, which is class 0.
pub(crate) fn mask(class: u32) -> Option<[u8; 3]> {
    let colours = &super::DARK.compared;
    let at = class.checked_sub(1)? as usize;
    let [red, green, blue, _] = colours[at % colours.len()].to_array();
    Some([red, green, blue])
}
