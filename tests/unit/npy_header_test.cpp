// Headers of .npy files: those that numpy writes, those that it does not, and mutations of good ones, which must give a
// header or an input error and nothing else. Files of numpy itself are read in io/read_other_files.py.
#include "src/npy_header.h"

#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/support/catch.h"
#include "tests/support/error_kind.h"

using namespace tallsketch;

namespace {

/// The first bytes of a file, as numpy pads them.
std::string npy(const std::string& dictionary, int major = 1, int minor = 0) {
  std::string text = dictionary;
  const std::size_t fixed = major == 1 ? 10 : 12;
  while ((fixed + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += static_cast<char>(major);
  bytes += static_cast<char>(minor);
  for (std::size_t k = 0, length = text.size(); k < fixed - 8; ++k, length >>= 8) {
    bytes += static_cast<char>(length & 0xff);
  }
  return bytes + text;
}

std::string quoted(const std::string& text) { return fmt::format("'{}'", text); }

std::string dictionary(const std::string& descr, const std::string& shape = "(3, 4)",
                       const std::string& fortran = "False") {
  return fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': {}, }}", descr, fortran, shape);
}

NpyHeader parsed(const std::string& bytes) { return parse_npy_header(bytes, "a.npy"); }

std::string message_of(const std::string& bytes) {
  try {
    parsed(bytes);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kInput);
    return e.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("Headers as numpy writes them, versions 1 to 3") {
  for (const int major : {1, 2, 3}) {
    const std::string bytes = npy(dictionary("'<f4'"), major);
    const NpyHeader header = parsed(bytes + "data that follow");
    CHECK(header.type == StoredType::kFloat32);
    CHECK_FALSE(header.big_endian);
    CHECK_FALSE(header.fortran);
    CHECK(header.shape == std::vector<std::int64_t>{3, 4});
    CHECK(header.data_offset == static_cast<std::int64_t>(bytes.size()));
    CHECK(header.data_offset % 64 == 0);
    CHECK(header.data_bytes() == 48);
  }
}

TEST_CASE("Every type of numpy that can be read, in either byte order") {
  const std::vector<std::pair<std::string, StoredType>> kinds = {
      {"f2", StoredType::kFloat16}, {"f4", StoredType::kFloat32}, {"f8", StoredType::kFloat64},
      {"i1", StoredType::kInt8},    {"u1", StoredType::kUint8},   {"b1", StoredType::kUint8},
      {"i2", StoredType::kInt16},   {"u2", StoredType::kUint16},  {"i4", StoredType::kInt32},
      {"u4", StoredType::kUint32},  {"i8", StoredType::kInt64},   {"u8", StoredType::kUint64},
      {"V2", StoredType::kBfloat16}};
  for (const auto& [kind, type] : kinds) {
    for (const char* order : {"<", ">", "="}) {
      const NpyHeader header = parsed(npy(dictionary(quoted(order + kind))));
      CHECK(header.type == type);
      CHECK(header.big_endian == (order[0] == '>' && stored_size(type) > 1));
    }
  }
  CHECK(parsed(npy(dictionary("'|b1'"))).type == StoredType::kUint8);
  CHECK(parsed(npy(dictionary("'|V2'"))).type == StoredType::kBfloat16);
}

TEST_CASE("Shapes, orders, quotes and blanks that are all the same") {
  CHECK(parsed(npy(dictionary("'<f8'", "(5,)"))).shape == std::vector<std::int64_t>{5});
  CHECK(parsed(npy(dictionary("'<f8'", "()"))).shape.empty());
  CHECK(parsed(npy(dictionary("'<f8'", "(0, 7)"))).data_bytes() == 0);
  CHECK(parsed(npy(dictionary("'<f8'", "(3L, 4L)"))).shape == std::vector<std::int64_t>{3, 4});
  CHECK(parsed(npy(dictionary("'<f8'", "(1, 2, 3)"))).shape.size() == 3);
  CHECK(parsed(npy(dictionary("'<f8'", "(3, 4)", "True"))).fortran);
  CHECK(parsed(npy("{\"shape\":(3,4),\"descr\":\"<f8\",\"fortran_order\":True}")).fortran);
  const std::string largest = "(1152921504606838000,)";  // times 8 bytes: just below 2^63 with a header
  CHECK(parsed(npy(dictionary("'<f8'", largest))).data_bytes() == 9223372036854704000);
}

TEST_CASE("What is no header says why") {
  using Catch::Matchers::ContainsSubstring;
  const auto says = [](const std::string& bytes, const std::string& words) {
    CHECK_THAT(message_of(bytes), ContainsSubstring(words));
    CHECK_THAT(message_of(bytes), ContainsSubstring("a.npy"));
  };
  says("", "not a .npy file");
  says("\x93NUMPX", "not a .npy file");
  says("\x93NUMPY", "truncated");
  says(std::string("\x93NUMPY\x01\x00\x10", 9), "truncated");
  says(npy(dictionary("'<f4'")).substr(0, 40), "truncated: its .npy header needs 128 bytes, the file has 40");
  says(npy(dictionary("'<f4'"), 4), "version 4.0");
  says(npy(dictionary("'<f4'"), 0), "version 0.0");
  says(npy(dictionary("'<f4'"), 1, 1), "version 1.1");
  says(std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12), "claims a .npy header of 2147483647 bytes");
  for (const char* type :
       {"<c8", "<f16", "<U5", "|O", "<M8[s]", "|S4", "<f3", "|V4", "f4", "<", "", "|f4", "|i8", "<e4"}) {
    says(npy(dictionary(quoted(type))), "of type " + quoted(type));
  }
  says(npy(dictionary("[('x', '<f4')]")), "structured");
  says(npy(dictionary("'<f4'", "(3, 4")), "malformed");
  says(npy(dictionary("'<f4'", "(5)")), "a shape");
  says(npy(dictionary("'<f4'", "(3, -4)")), "dimension");
  says(npy(dictionary("'<f4'", "(3.0, 4)")), "malformed");
  says(npy(dictionary("'<f4'", "[3, 4]")), "'(' is expected");
  says(npy(dictionary("'<f4'", "(99999999999999999999,)")), "too large");
  says(npy(dictionary("'<f4'", "(3037000500, 3037000500)")), "claims an array");
  says(npy(dictionary("'<f8'", "(1152921504606839000,)")), "claims an array");
  says(npy(dictionary("'<f4'", "(0, 9000000000000000000)")), "claims an array");
  says(npy(dictionary("'<f4'", "(3, 4)", "false")), "True or False");
  says(npy(dictionary("<f4")), "in quotes");
  says(npy("{'descr': '<f4', 'fortran_order': False, }"), "missing");
  says(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"), "twice");
  says(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}"), "unknown");
  says(npy(dictionary("'<f4'") + " and more"), "follows");
  says(npy(""), "'{' is expected");
  says(npy("{'descr: 1"), "not closed");
}

TEST_CASE("Mutations of a good header give a header within bounds, or an input error") {
  std::mt19937 random(20240229);
  const std::string good = npy(dictionary("'<f4'", "(2003, 7)"));
  int headers = 0;
  for (int k = 0; k < 20000; ++k) {
    std::string bytes = good;
    for (unsigned change = random() % 4; change < 4; ++change) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes.erase(at, 1 + random() % 3); break;
        default: bytes.insert(at, 1, "(){},':0L9"[random() % 10]); break;
      }
    }
    try {
      const NpyHeader header = parsed(bytes);
      ++headers;
      if (header.data_offset < 10 || header.data_offset > static_cast<std::int64_t>(bytes.size()) ||
          header.data_bytes() < 0) {
        FAIL("mutation " << k << " is out of bounds");
      }
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kInput) FAIL("mutation " << k << ": " << e.what());
    }
  }
  CHECK(headers > 0);  // blanks and digits change nothing that is wrong
  CHECK(headers < 20000);
}
