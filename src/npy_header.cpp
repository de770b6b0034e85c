#include "src/npy_header.h"

#include <limits>
#include <optional>

#include <fmt/format.h>

#include "src/error.h"

namespace tallsketch {

namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr std::size_t kMagicBytes = 6;

/// Text of the file as a message may show it.
std::string shown(const std::string& text) {
  std::string safe;
  for (const char c : text.substr(0, 60)) safe += c >= ' ' && c <= '~' ? c : '?';
  return safe + (text.size() > 60 ? "..." : "");
}

/// Reads the dictionary {'descr': ..., 'fortran_order': ..., 'shape': ...} from left to right.
class Reader {
 public:
  Reader(const std::string& text, const std::string& path) : text_(text), path_(path) {}

  NpyHeader header() {
    NpyHeader header;
    bool has_type = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted("a key");
      expect(':');
      if (key == "descr" && !has_type) {
        has_type = true;
        read_type(header);
      } else if (key == "fortran_order" && !has_order) {
        has_order = true;
        header.fortran = boolean();
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        header.shape = shape();
      } else {
        fail(fmt::format("key '{}' is unknown or there twice", shown(key)));
      }
      if (accept(',')) continue;
      expect('}');
      break;
    }
    skip_blanks();
    if (at_ != text_.size()) fail("something follows the dictionary");
    if (!has_type || !has_order || !has_shape) fail("one of descr, fortran_order and shape is missing");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorKind::kInput,
                fmt::format("'{}' has a malformed .npy header: {} (byte {} of \"{}\"); save it again with numpy.save",
                            path_, why, at_, shown(text_)));
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("'{}' is expected", c));
  }
  bool accept_word(const std::string& word) {
    skip_blanks();
    if (text_.compare(at_, word.size(), word) != 0) return false;
    at_ += word.size();
    return true;
  }

  std::string quoted(const char* what) {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail(fmt::format("{} in quotes is expected", what));
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) fail("a quote is not closed");
    const std::string inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }

  bool boolean() {
    if (accept_word("True")) return true;
    if (!accept_word("False")) fail("True or False is expected");
    return false;
  }

  std::int64_t extent() {
    skip_blanks();
    const std::size_t begin = at_;
    std::int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (value > (std::numeric_limits<std::int64_t>::max() - 9) / 10) fail("a dimension is too large");
      value = 10 * value + (text_[at_] - '0');
    }
    if (at_ == begin) fail("a dimension is expected");
    accept_word("L");  // as Python 2 wrote long integers
    return value;
  }

  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> extents;
    expect('(');
    while (!accept(')')) {
      extents.push_back(extent());
      if (extents.size() > 32) fail("it has too many dimensions");  // numpy's own limit
      if (accept(',')) continue;
      if (extents.size() == 1) fail("(n) is a number, (n,) a shape");
      expect(')');
      break;
    }
    return extents;
  }

  void read_type(NpyHeader& header) {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '[') {
      throw Error(ErrorKind::kInput,
                  fmt::format("'{}' holds a structured array (records); save one field as an array of numbers", path_));
    }
    const std::string descr = quoted("the type");
    const std::optional<StoredType> type = descr.empty() ? std::nullopt : number_type(descr);
    require(
        type.has_value(), ErrorKind::kInput,
        fmt::format("'{}' is of type '{}'; float16, float32, float64, bfloat16 ('V2'), booleans and integers of 8 to "
                    "64 bits can be read (convert it with .astype('float32'))",
                    path_, shown(descr)));
    header.type = *type;
    header.big_endian = descr[0] == '>' && stored_size(*type) > 1;
  }

  static std::optional<StoredType> number_type(const std::string& descr) {
    // "=" is the byte order of the machine that wrote: little-endian on all that numpy runs on today.
    if (descr.find_first_of("<>|=") != 0) return std::nullopt;
    const std::string kind = descr.substr(1);
    const bool single = kind == "b1" || kind == "i1" || kind == "u1" || kind == "V2";
    if (descr[0] == '|' && !single) return std::nullopt;
    if (kind == "f2") return StoredType::kFloat16;
    if (kind == "f4") return StoredType::kFloat32;
    if (kind == "f8") return StoredType::kFloat64;
    if (kind == "V2") return StoredType::kBfloat16;
    if (kind == "b1" || kind == "u1") return StoredType::kUint8;
    if (kind == "i1") return StoredType::kInt8;
    if (kind == "i2") return StoredType::kInt16;
    if (kind == "u2") return StoredType::kUint16;
    if (kind == "i4") return StoredType::kInt32;
    if (kind == "u4") return StoredType::kUint32;
    if (kind == "i8") return StoredType::kInt64;
    if (kind == "u8") return StoredType::kUint64;
    return std::nullopt;
  }

  const std::string& text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

std::uint32_t little_endian(const std::string& bytes, std::size_t at, std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t k = count; k-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + k]);
  return value;
}

}  // namespace

std::int64_t NpyHeader::data_bytes() const {
  std::int64_t bytes = stored_size(type);
  for (const std::int64_t extent : shape) bytes *= extent;
  return bytes;
}

bool is_npy(const std::string& head) { return head.compare(0, kMagicBytes, kMagic) == 0; }

NpyHeader parse_npy_header(const std::string& bytes, const std::string& path) {
  require(is_npy(bytes), ErrorKind::kInput, fmt::format("'{}' is not a .npy file", path));
  const auto cut_off = [&](std::size_t needed) {
    return fmt::format("'{}' is truncated: its .npy header needs {} bytes, the file has {}", path, needed,
                       bytes.size());
  };
  require(bytes.size() >= kMagicBytes + 2, ErrorKind::kInput, cut_off(kMagicBytes + 2));
  const int major = static_cast<unsigned char>(bytes[6]), minor = static_cast<unsigned char>(bytes[7]);
  require(major >= 1 && major <= 3 && minor == 0, ErrorKind::kInput,
          fmt::format("'{}' is .npy version {}.{}; versions 1.0, 2.0 and 3.0 are known", path, major, minor));
  const std::size_t length_bytes = major == 1 ? 2 : 4, text_at = kMagicBytes + 2 + length_bytes;
  require(bytes.size() >= text_at, ErrorKind::kInput, cut_off(text_at));
  const std::size_t length = little_endian(bytes, kMagicBytes + 2, length_bytes);
  require(
      text_at + length <= static_cast<std::size_t>(kMostNpyHeaderBytes), ErrorKind::kInput,
      fmt::format("'{}' claims a .npy header of {} bytes; those of arrays of numbers have about 128", path, length));
  require(bytes.size() >= text_at + length, ErrorKind::kInput, cut_off(text_at + length));
  const std::string text = bytes.substr(text_at, length);
  NpyHeader header = Reader(text, path).header();
  header.data_offset = static_cast<std::int64_t>(text_at + length);
  std::int64_t room = (std::numeric_limits<std::int64_t>::max() - kMostNpyHeaderBytes) / stored_size(header.type);
  for (const std::int64_t extent : header.shape) room /= extent > 0 ? extent : 1;
  require(room > 0, ErrorKind::kInput,
          fmt::format("'{}' claims an array of {} elements", path, fmt::join(header.shape, " x ")));
  return header;
}

}  // namespace tallsketch
