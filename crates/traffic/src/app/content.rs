//! The files that servers have: made from a seed, of exact sizes, and really of the kind that their names say, so that a gateway
//! that looks inside finds nothing wrong.

use super::nstl;
use crate::random::SplitMix64;
use measure::application::{MIXED_BYTES, Object, Protocol, ZIP_BYTES};
use measure::mix::{Mix, Part, PartFiles};
use std::collections::HashMap;
use std::sync::Arc;

/// Kinds of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Html,
    Gif,
    Zip,
}

impl Kind {
    pub(super) const fn mime(self) -> &'static str {
        match self {
            Kind::Html => "text/html",
            Kind::Gif => "image/gif",
            Kind::Zip => "application/zip",
        }
    }

    const fn extension(self) -> &'static str {
        match self {
            Kind::Html => "html",
            Kind::Gif => "gif",
            Kind::Zip => "zip",
        }
    }
}

const KIB: usize = 1024;

/// One file.
#[derive(Debug)]
pub(super) struct File {
    pub(super) kind: Kind,
    /// As clients ask for it, for example `/html/10240.html`.
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
}

/// All files, which every server has.
#[derive(Debug)]
pub struct FileSet {
    /// For HTTP.
    pages: Vec<Arc<File>>,
    /// For FTP.
    archives: Vec<Arc<File>>,
    /// For each part of a mix; none where there is no mix.
    parts: Vec<Vec<Arc<File>>>,
    by_path: HashMap<String, Arc<File>>,
}

impl FileSet {
    /// The NSTL benchmark's files: HTML and GIF for HTTP, ZIP for FTP.
    pub fn nstl(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let sizes = nstl::HTTP_FILES.iter().flat_map(|(kind, sizes)| sizes.iter().map(|size| (*kind, *size)));
        let mut make = |(kind, size)| Arc::new(File::make(kind, size, &mut random));
        let pages: Vec<Arc<File>> = sizes.map(&mut make).collect();
        let archives: Vec<Arc<File>> = ZIP_BYTES.iter().map(|size| make((Kind::Zip, *size))).collect();
        Self::of(pages, archives)
    }

    /// The files of an experiment.
    pub fn new(object: Object, seed: u64) -> Self {
        match object {
            Object::Nstl => Self::nstl(seed),
            Object::Kb(kb) => Self::pages(&[kb as usize * KIB], seed),
            Object::Mixed => Self::pages(&MIXED_BYTES, seed),
        }
    }

    /// The files of a mix's parts. Two parts that have a file of one kind and size have the same.
    pub fn of_mix(mix: &Mix, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut made: HashMap<(&str, usize), Arc<File>> = HashMap::new();
        let mut make = |(kind, size): (Kind, usize)| {
            let file = made.entry((kind.extension(), size));
            file.or_insert_with(|| Arc::new(File::make(kind, size, &mut random))).clone()
        };
        let parts: Vec<Vec<Arc<File>>> =
            mix.parts.iter().map(|part| kinds(part).into_iter().map(&mut make).collect()).collect();
        let by_path = parts.iter().flatten().map(|file| (file.path.clone(), file.clone())).collect();
        Self { pages: Vec::new(), archives: Vec::new(), parts, by_path }
    }

    /// HTML of these sizes.
    fn pages(sizes: &[usize], seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let page = |size: &usize| Arc::new(File::make(Kind::Html, *size, &mut random));
        Self::of(sizes.iter().map(page).collect(), Vec::new())
    }

    fn of(pages: Vec<Arc<File>>, archives: Vec<Arc<File>>) -> Self {
        let by_path = pages.iter().chain(&archives).map(|file| (file.path.clone(), file.clone())).collect();
        Self { pages, archives, parts: Vec::new(), by_path }
    }

    /// A file of a part of a mix, one after the other.
    pub(super) fn of_part(&self, part: usize, number: u64) -> &Arc<File> {
        let files = &self.parts[part];
        &files[(number % files.len() as u64) as usize]
    }

    /// One of the files that are fetched with this protocol.
    pub(super) fn any(&self, protocol: Protocol, random: &mut SplitMix64) -> &Arc<File> {
        let files = match protocol {
            Protocol::Http10 | Protocol::Http11 | Protocol::Https | Protocol::Http2 => &self.pages,
            Protocol::Ftp(_) => &self.archives,
        };
        &files[random.below(files.len() as u64) as usize]
    }

    pub(super) fn named(&self, path: &str) -> Option<&Arc<File>> {
        self.by_path.get(path)
    }
}

/// The files of a part: what each is, and its size.
fn kinds(part: &Part) -> Vec<(Kind, usize)> {
    match (&part.files, part.protocol) {
        (_, Protocol::Ftp(_)) => part.sizes().into_iter().map(|size| (Kind::Zip, size)).collect(),
        (PartFiles::Nstl, _) => {
            let sizes = |(kind, sizes): &(Kind, &'static [usize])| {
                let kind = *kind;
                sizes.iter().map(move |size| (kind, *size))
            };
            nstl::HTTP_FILES.iter().flat_map(sizes).collect()
        }
        _ => part.sizes().into_iter().map(|size| (Kind::Html, size)).collect(),
    }
}

impl File {
    fn make(kind: Kind, size: usize, random: &mut SplitMix64) -> Self {
        let bytes = match kind {
            Kind::Html => html(size, random),
            Kind::Gif => picture(size, random),
            Kind::Zip => archive(size, random),
        };
        let folder = kind.extension();
        Self { kind, path: format!("/{folder}/{size}.{}", kind.extension()), bytes }
    }
}

const HTML_HEAD: &str = "<!DOCTYPE html>\n<html><head><title>NSTL</title></head><body><p>\n";
const HTML_END: &str = "\n</p></body></html>\n";

/// A page of words.
fn html(size: usize, random: &mut SplitMix64) -> Vec<u8> {
    const WORDS: [&str; 8] = ["gateway", "packet", "zone", "rule", "server", "client", "network", "policy"];
    let mut page = HTML_HEAD.to_owned();
    let end = size - HTML_END.len();
    while page.len() < end {
        page += WORDS[random.below(WORDS.len() as u64) as usize];
        page += if random.below(8) == 0 { "</p>\n<p>" } else { " " };
    }
    // A tag that was cut would be wrong, blanks are not.
    let cut = page[..end].rfind([' ', '>']).map_or(end, |at| at + 1);
    page.truncate(cut);
    page += &" ".repeat(end - cut);
    page += HTML_END;
    page.into_bytes()
}

/// Code that empties a decoder's table, and the one that ends the image, of images with four colours.
const GIF_CLEAR: u8 = 4;
const GIF_END: u8 = 5;
/// Bits of a code as long as the table is emptied in time.
const GIF_CODE_BITS: u32 = 3;
/// Most bytes of a block.
const GIF_BLOCK: usize = 255;

/// A picture of random pixels in four colours (GIF89a). The table of its LZW codes is emptied after every second pixel, so that
/// all codes keep their length and the size is known before; a comment fills what is missing.
fn picture(size: usize, random: &mut SplitMix64) -> Vec<u8> {
    const FRAME: usize = 13 + 12 + 10 + 1 + 1 + 1;
    // A comment takes at least five bytes.
    let room = size - FRAME - 5;
    let data_bytes = room - room.div_ceil(GIF_BLOCK + 1);
    // Nine bits for two pixels, and a code for the end.
    let rows = (data_bytes * 8 - 2 * GIF_CODE_BITS as usize) / 9 / 8;
    let (width, height) = (16, rows.min(usize::from(u16::MAX)));
    let mut picture = b"GIF89a".to_vec();
    picture.extend((width as u16).to_le_bytes());
    picture.extend((height as u16).to_le_bytes());
    // A table of four colours for all images; background 0; pixels as wide as high.
    picture.extend([0x81, 0, 0]);
    picture.extend([0, 0, 0, 0xff, 0, 0, 0, 0xff, 0, 0xff, 0xff, 0xff]);
    let comment = size - FRAME - blocks_bytes(gif_bytes(width * height));
    picture.extend(gif_comment(comment));
    // The image: at 0, 0; no table of its own.
    picture.extend([0x2c, 0, 0, 0, 0]);
    picture.extend((width as u16).to_le_bytes());
    picture.extend((height as u16).to_le_bytes());
    picture.extend([0, 2]);
    for block in gif_codes(width * height, random).chunks(GIF_BLOCK) {
        picture.push(block.len() as u8);
        picture.extend(block);
    }
    picture.extend([0, 0x3b]);
    picture
}

/// Bytes of the codes of an even number of pixels.
const fn gif_bytes(pixels: usize) -> usize {
    ((pixels / 2 * 3 + 1) * GIF_CODE_BITS as usize).div_ceil(8)
}

/// Bytes with the length before each block.
const fn blocks_bytes(bytes: usize) -> usize {
    bytes + bytes.div_ceil(GIF_BLOCK)
}

fn gif_codes(pixels: usize, random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(gif_bytes(pixels));
    let (mut bits, mut held) = (0u32, 0u32);
    let mut push = |code: u8| {
        bits |= u32::from(code) << held;
        held += GIF_CODE_BITS;
        while held >= 8 {
            bytes.push(bits as u8);
            bits >>= 8;
            held -= 8;
        }
    };
    for _ in 0..pixels / 2 {
        push(GIF_CLEAR);
        push(random.below(4) as u8);
        push(random.below(4) as u8);
    }
    push(GIF_END);
    // The last bits fill a byte.
    push(0);
    push(0);
    bytes.truncate(gif_bytes(pixels));
    bytes
}

/// A comment extension of so many bytes in all; at least five.
fn gif_comment(size: usize) -> Vec<u8> {
    let mut comment = vec![0x21, 0xfe];
    // What is left beside the two before and the 0 behind: blocks of a length and at least a byte.
    let mut left = size - 3;
    while left > 0 {
        let mut block = left.min(GIF_BLOCK + 1);
        if left - block == 1 {
            block -= 1;
        }
        comment.push((block - 1) as u8);
        comment.extend(std::iter::repeat_n(b'.', block - 1));
        left -= block;
    }
    comment.push(0);
    comment
}

/// The only file in an archive.
const ZIP_ENTRY: &[u8; 8] = b"data.bin";

/// An archive with one stored file of random bytes (APPNOTE.TXT of PKWARE, sections 4.3.7, 4.3.12 and 4.3.16).
fn archive(size: usize, random: &mut SplitMix64) -> Vec<u8> {
    const LOCAL_HEADER: usize = 30;
    const DIRECTORY_HEADER: usize = 46;
    const END: usize = 22;
    let length = size - (LOCAL_HEADER + DIRECTORY_HEADER + END + 2 * ZIP_ENTRY.len());
    let data: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
    // Version 1.0, no flags, stored, 1 April 1997.
    let mut facts = Vec::new();
    for field in [10, 0, 0, 0, (1997 - 1980) << 9 | 4 << 5 | 1] {
        facts.extend(u16::to_le_bytes(field));
    }
    for field in [crc32fast::hash(&data), length as u32, length as u32] {
        facts.extend(field.to_le_bytes());
    }
    facts.extend((ZIP_ENTRY.len() as u16).to_le_bytes());
    // No extra field.
    facts.extend([0; 2]);
    let mut archive = Vec::with_capacity(size);
    let whole = [&b"PK\x03\x04"[..], &facts, ZIP_ENTRY, &data];
    whole.into_iter().for_each(|part| archive.extend(part));
    let directory = archive.len() as u32;
    // The directory: made by version 1.0; no comment, first disk, no attributes, and where the file begins.
    let entry = [&b"PK\x01\x02"[..], &10u16.to_le_bytes(), &facts, &[0; 14], ZIP_ENTRY];
    entry.into_iter().for_each(|part| archive.extend(part));
    let directory_bytes = archive.len() as u32 - directory;
    // The end: one disk, one entry, no comment.
    archive.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    archive.extend(directory_bytes.to_le_bytes());
    archive.extend(directory.to_le_bytes());
    archive.extend([0; 2]);
    archive
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    #[test]
    fn archives_are_unpacked_by_somebody_elses_program() {
        const UNPACK: &str = "import io, sys, zipfile
archive = zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read()))
assert archive.testzip() is None
print(*archive.namelist(), len(archive.read('data.bin')))";
        for size in ZIP_BYTES {
            let archive = archive(size, &mut SplitMix64::new(size as u64));
            assert_eq!(archive.len(), size);
            let mut python = Command::new("python3");
            python.args(["-c", UNPACK]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut python = python.spawn().unwrap();
            python.stdin.take().unwrap().write_all(&archive).unwrap();
            let output = python.wait_with_output().unwrap();
            assert!(output.status.success());
            assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("data.bin {}\n", size - 114));
        }
    }

    #[test]
    fn files_have_their_sizes_and_depend_on_the_seed_alone() {
        let [set, same, other] = [7, 7, 8].map(FileSet::nstl);
        assert_eq!((set.pages.len(), set.archives.len()), (17, 4));
        for (path, file) in &set.by_path {
            let (same, other) = (&same.by_path[path], &other.by_path[path]);
            let name = file.path.rsplit('/').next().unwrap();
            assert_eq!(name, format!("{}.{}", file.bytes.len(), file.kind.extension()));
            assert!(file.bytes == same.bytes && file.bytes != other.bytes, "{name}");
            assert!(Arc::ptr_eq(set.named(&file.path).unwrap(), file));
        }
        assert!(set.named("/html/../html/1024.html").is_none());
    }

    #[test]
    fn objects_are_as_large_as_they_are_asked_for() {
        for (object, bytes) in
            [(Object::Kb(1), &[1024][..]), (Object::Kb(1024), &[1 << 20]), (Object::Mixed, &MIXED_BYTES)]
        {
            let set = FileSet::new(object, 3);
            let sizes: Vec<usize> = set.pages.iter().map(|file| file.bytes.len()).collect();
            assert_eq!((sizes.as_slice(), set.by_path.len()), (bytes, bytes.len()));
        }
        assert_eq!(FileSet::new(Object::Nstl, 3).by_path.len(), FileSet::nstl(3).by_path.len());
    }

    #[test]
    fn parts_of_a_mix_have_their_files_in_turns() {
        let ftp = measure::application::PROTOCOLS.iter().find(|(name, _)| *name == "ftp:get").unwrap().1;
        let part = |name: &str, protocol, files| Part {
            name: name.into(),
            protocol,
            files,
            transactions: 1,
            share: 0.25,
        };
        let mix = Mix {
            name: "m".into(),
            title: "M".into(),
            source: None,
            shares: measure::mix::SharesOf::Transactions,
            parts: vec![
                part("a", Protocol::Http11, PartFiles::Kb(vec![1, 80])),
                part("b", Protocol::Https, PartFiles::Nstl),
                part("c", ftp, PartFiles::Kb(vec![1])),
                part("d", ftp, PartFiles::Nstl),
            ],
        };
        let set = FileSet::of_mix(&mix, 5);
        for (place, part) in mix.parts.iter().enumerate() {
            let sizes: Vec<usize> =
                (0..part.sizes().len() as u64).map(|turn| set.of_part(place, turn).bytes.len()).collect();
            assert_eq!(sizes, part.sizes(), "{}", part.name);
            let again = set.of_part(place, sizes.len() as u64);
            assert!(Arc::ptr_eq(again, set.of_part(place, 0)) && set.named(&again.path).is_some());
        }
        assert_eq!(set.by_path.len(), 17 + 5, "pages of a KB and of 80 KB are the NSTL benchmark's");
        assert_eq!(set.of_part(2, 0).kind, Kind::Zip);
        assert!(Arc::ptr_eq(set.of_part(0, 0), set.of_part(1, 0)));
    }

    #[test]
    fn pages_are_whole_html() {
        for size in [205, 1024, 2048, 40 * 1024] {
            let page = String::from_utf8(html(size, &mut SplitMix64::new(1))).unwrap();
            assert!(page.starts_with(HTML_HEAD) && page.ends_with(HTML_END));
            assert_eq!(page.matches("<p>").count(), page.matches("</p>").count(), "{size}");
            assert_eq!(page.matches('<').count(), page.matches('>').count(), "{size}");
        }
    }

    #[test]
    fn pictures_are_decoded_by_somebody_elses_decoder() {
        for size in [512, 513, 514, 1024, 2048, 4096, 10_240, 26_624, 212_992] {
            let picture = picture(size, &mut SplitMix64::new(size as u64));
            assert_eq!(picture.len(), size);
            let mut options = gif::DecodeOptions::new();
            options.check_lzw_end_code(true);
            options.check_frame_consistency(true);
            let mut decoder = options.read_info(&picture[..]).unwrap();
            let frame = decoder.read_next_frame().unwrap().unwrap();
            let pixels = usize::from(frame.width) * usize::from(frame.height);
            assert_eq!(frame.buffer.len(), pixels);
            assert!(pixels * 9 / 16 > size * 3 / 4, "{size}: most of it is the picture, {pixels} pixels");
            let colours: std::collections::BTreeSet<u8> = frame.buffer.iter().copied().collect();
            assert_eq!(colours.len(), 4);
            assert!(decoder.read_next_frame().unwrap().is_none());
        }
    }
}
