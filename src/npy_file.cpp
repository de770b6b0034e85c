#include "src/npy_file.h"

#include <algorithm>

#include <fmt/format.h>

#include "src/error.h"
#include "src/npy_header.h"
#include "src/text.h"

namespace tallsketch {

namespace {

/// The bytes that a header may have.
std::string header_bytes(const InputFile& file) {
  const std::int64_t bytes = std::min(file.bytes(), kMostNpyHeaderBytes);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  DirectReader(file.path(), std::make_shared<ReadTeam>(1))
      .read({0, 0, bytes, 1, 0}, reinterpret_cast<std::byte*>(text.data()));
  return text;
}

StoredFacts facts_of(const InputFile& file) {
  const NpyHeader header = parse_npy_header(header_bytes(file), file.path());
  require(header.shape.size() == 1 || header.shape.size() == 2, ErrorKind::kInput,
          fmt::format("'{}' has {} dimensions; a matrix (m, n) or a vector (m) is needed", file.path(),
                      header.shape.size()));
  const std::int64_t needed = header.data_offset + header.data_bytes();
  require(file.bytes() >= needed, ErrorKind::kInput,
          fmt::format("'{}' is truncated: {} of {} bytes", file.path(), file.bytes(), needed));
  StoredFacts facts;
  facts.path = file.path();
  facts.file_identity = file.identity();
  facts.rank = static_cast<int>(header.shape.size());
  facts.rows = header.shape.front();
  facts.cols = facts.rank == 2 ? header.shape.back() : 1;
  facts.layout = "npy";
  if (header.fortran && facts.rank == 2) {  // in C order it is the transpose that is stored
    facts.fortran = true;
    facts.layout = "npy in Fortran order";
    std::swap(facts.rows, facts.cols);
  }
  facts.type = header.type;
  facts.big_endian = header.big_endian;
  facts.offset = header.data_offset;
  facts.place = fmt::format("byte {}", header.data_offset);
  if (file.bytes() > needed) {
    facts.warnings.push_back(fmt::format("'{}' goes on for {} after the array; what follows is not read", file.path(),
                                         bytes_text(file.bytes() - needed)));
  }
  return facts;
}

}  // namespace

bool is_npy_file(const std::string& path) {
  try {
    return is_npy(InputFile(path).head());
  } catch (const Error&) {
    return false;
  }
}

std::unique_ptr<StoredMatrix> open_npy(const InputFile& file, std::shared_ptr<ReadTeam> team) {
  auto matrix = std::make_unique<StoredMatrix>(facts_of(file));
  matrix->read_directly(std::move(team));
  return matrix;
}

}  // namespace tallsketch
