//! Frames of HTTP/2, as the test writes them.

use tokio::{io::AsyncReadExt, time::timeout};

use super::{
    PATIENCE, Setup,
    client::{self, Stream},
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const GOAWAY: u8 = 7;
pub(super) const CONTINUATION: u8 = 9;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Returns a frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns headers, each with its name and its value as they are.
pub(super) fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            push_length(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// Appends an integer of HPACK with a prefix of seven bits.
fn push_length(block: &mut Vec<u8>, length: usize) {
    if let Some(length) = u8::try_from(length).ok().filter(|length| *length < 127) {
        return block.push(length);
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    block.push(u8::try_from(rest).unwrap());
}

/// Returns a request without a body.
pub(super) fn request(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(fields))
}

/// Returns the fields of a GET.
pub(super) fn get<'a>(path: &'a str, authorization: &'a str) -> [(&'a str, &'a str); 5] {
    [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "proxy.example"),
        (":path", path),
        ("authorization", authorization),
    ]
}

/// A frame that came.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) stream: u32,
    payload: Vec<u8>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With this status code.
    Status(u16),
    /// With an error of the stream.
    Reset,
    /// With the end of the connection.
    Closed,
}

/// A connection of HTTP/2.
pub(super) struct Http2 {
    stream: Stream,
    bytes: Vec<u8>,
}

impl Http2 {
    /// Opens a connection with these settings.
    pub(super) async fn open(setup: &Setup, settings: &[u8]) -> Self {
        let stream = client::connect(setup.address, &setup.client, "h2").await.unwrap();
        let mut connection = Self { stream, bytes: Vec::new() };
        connection.write(setup, &[PREFACE, &frame(SETTINGS, 0, 0, settings)].concat()).await;
        connection
    }

    pub(super) async fn write(&mut self, setup: &Setup, bytes: &[u8]) {
        setup.write(&mut self.stream, bytes).await;
    }

    /// Returns the next frame, or `None` at the end of the connection.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.parse() {
                return Some(frame);
            }
            let read = timeout(PATIENCE, self.stream.read_buf(&mut self.bytes)).await.expect("nothing comes");
            if read.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    fn parse(&mut self) -> Option<Frame> {
        let head = self.bytes.get(..9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let end = 9 + usize::try_from(length).unwrap();
        let kind = head[3];
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let payload = self.bytes.get(9..end)?.to_vec();
        self.bytes.drain(..end);
        Some(Frame { kind, stream, payload })
    }

    /// Waits for the response of a stream.
    pub(super) async fn outcome(&mut self, stream: u32) -> Outcome {
        while let Some(frame) = self.next().await {
            match frame.kind {
                HEADERS if frame.stream == stream => return Outcome::Status(status(&frame.payload)),
                RST_STREAM if frame.stream == stream => return Outcome::Reset,
                GOAWAY => return Outcome::Closed,
                _ => {}
            }
        }
        Outcome::Closed
    }
}

/// Decodes the status code, which is the first of the headers.
fn status(block: &[u8]) -> u16 {
    // Updates of the size of the table can precede it.
    let block: Vec<_> = block.iter().copied().skip_while(|byte| byte & 0xe0 == 0x20).collect();
    let indexed = [200, 204, 206, 304, 400, 404, 500];
    match block.as_slice() {
        [first @ 0x88..=0x8e, ..] => indexed[usize::from(first - 0x88)],
        [0x48, length, rest @ ..] if length & 0x80 == 0x80 => digits(&rest[..usize::from(length & 0x7f)]),
        [0x48, 3, rest @ ..] => std::str::from_utf8(&rest[..3]).unwrap().parse().unwrap(),
        other => panic!("the status is unknown: {other:?}"),
    }
}

/// Decodes three digits of the Huffman code of HPACK: 0 to 2 have five bits, the others six.
fn digits(bytes: &[u8]) -> u16 {
    let bits: Vec<_> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| u16::from(byte >> bit & 1))).collect();
    let number = |bits: &[u16]| bits.iter().fold(0, |number, bit| number << 1 | bit);
    let (mut value, mut rest) = (0, bits.as_slice());
    for _ in 0..3 {
        let short = number(&rest[..5]);
        let (digit, length) = if short <= 2 { (short, 5) } else { (number(&rest[..6]) - 0x19 + 3, 6) };
        value = value * 10 + digit;
        rest = &rest[length..];
    }
    value
}
