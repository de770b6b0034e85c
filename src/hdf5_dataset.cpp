#include "src/hdf5_dataset.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "src/error.h"
#include "src/hdf5_type.h"

namespace tallsketch {

namespace {

std::string filter_name(hid_t creation, unsigned index, H5Z_filter_t& id) {
  unsigned flags = 0, config = 0;
  std::size_t values = 0;
  std::array<char, 64> name{};
  id = H5Pget_filter2(creation, index, &flags, &values, nullptr, name.size(), name.data(), &config);
  switch (id) {
    case H5Z_FILTER_DEFLATE: return "gzip";
    case H5Z_FILTER_SHUFFLE: return "shuffle";
    case H5Z_FILTER_FLETCHER32: return "fletcher32";
    case H5Z_FILTER_SZIP: return "szip";
    case H5Z_FILTER_NBIT: return "nbit";
    case H5Z_FILTER_SCALEOFFSET: return "scaleoffset";
    default: return name[0] != '\0' ? std::string(name.data()) : fmt::format("number {}", id);
  }
}

herr_t list_dataset(hid_t, const char* name, const H5O_info_t* info, void* names) {
  if (info->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(names)->push_back(std::string("/") + name);
  return 0;
}

std::string dataset_list(hid_t file) {
  std::vector<std::string> names;
#if H5_VERSION_GE(1, 12, 0) && !defined(H5_USE_110_API)
  const herr_t status = H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, list_dataset, &names, H5O_INFO_BASIC);
#else
  const herr_t status = H5Ovisit(file, H5_INDEX_NAME, H5_ITER_INC, list_dataset, &names);
#endif
  if (status < 0) return fmt::format("what it holds cannot be listed: {}; it may be corrupt", hdf5_error_text());
  H5Eclear2(H5E_DEFAULT);
  if (names.empty()) return "it holds no datasets";
  constexpr std::size_t kMost = 8;
  std::string list = "it holds ";
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) list += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMost) list += fmt::format(" and {} more", names.size() - kMost);
  return list;
}

std::string file_name(hid_t object) {
  const ssize_t length = H5Fget_name(object, nullptr, 0);
  std::string name(static_cast<std::size_t>(std::max<ssize_t>(0, length)), ' ');
  H5Fget_name(object, name.data(), name.size() + 1);
  return name;
}

H5O_info_t object_info(hid_t object) {
  H5O_info_t info{};
#if H5_VERSION_GE(1, 12, 0) && !defined(H5_USE_110_API)
  check_h5(H5Oget_info3(object, &info, H5O_INFO_BASIC), ErrorKind::kInput, "H5Oget_info");
#else
  check_h5(H5Oget_info(object, &info), ErrorKind::kInput, "H5Oget_info");
#endif
  return info;
}

/// Which file an object lives in: not the one that was opened, where an external link led to it.
unsigned long file_number(hid_t object) { return object_info(object).fileno; }

/// Where its header is: two datasets of a file differ in it.
std::string object_address(hid_t object) {
#if H5_VERSION_GE(1, 12, 0) && !defined(H5_USE_110_API)
  const H5O_token_t token = object_info(object).token;
  std::string text;
  for (const std::uint8_t byte : token.__data) text += fmt::format("{:02x}", byte);
  return text;
#else
  return fmt::format("{:x}", object_info(object).addr);
#endif
}

/// A dataset of this file, opened to be asked. Errors: kInput: no such dataset, or one of another file
Hdf5Handle probe_of(const Hdf5File& file, const std::string& name) {
  require(file.has(name), ErrorKind::kInput,
          fmt::format("'{}' has no dataset {} ({}); name it with --a, --b or FILE:/name", file.path(), name,
                      dataset_list(file.handle())));
  Hdf5Handle probe(H5Dopen2(file.handle(), name.c_str(), H5P_DEFAULT), H5Dclose);
  check_h5(probe.get(), ErrorKind::kInput, fmt::format("cannot open dataset {} of '{}'", name, file.path()));
  require(file_number(probe.get()) == file_number(file.handle()), ErrorKind::kInput,
          fmt::format("dataset {} of '{}' is a link into another file, '{}'; give that file itself", name, file.path(),
                      file_name(probe.get())));
  return probe;
}

std::array<hsize_t, 2> chunk_of(hid_t creation, int rank) {
  std::array<hsize_t, 2> chunk = {1, 1};
  H5Pget_chunk(creation, rank, chunk.data());
  return chunk;
}

/// How it is opened: with a chunk cache that holds two rows (columns) of chunks, so that a chunk shared by two reads is
/// decompressed once.
Hdf5Handle access_of(const Hdf5File& file, const std::string& name, bool by_columns) {
  const Hdf5Handle probe = probe_of(file, name);
  const Hdf5Handle creation(H5Dget_create_plist(probe.get()), H5Pclose);
  Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  const Hdf5Handle space(H5Dget_space(probe.get()), H5Sclose);
  const Hdf5Handle type(H5Dget_type(probe.get()), H5Tclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  require(rank == 1 || rank == 2, ErrorKind::kInput,
          fmt::format("dataset {} of '{}' has {} dimensions; a matrix (m, n) or a vector (m) is needed", name,
                      file.path(), rank));
  if (H5Pget_layout(creation.get()) == H5D_CHUNKED) {
    std::array<hsize_t, 2> dims = {0, 1};
    H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
    const std::array<hsize_t, 2> chunk = chunk_of(creation.get(), rank);
    const std::size_t across = by_columns && rank == 2 ? 0 : 1;
    const hsize_t chunks = (dims[across] + chunk[across] - 1) / chunk[across];
    const std::size_t row_of_chunks = static_cast<std::size_t>(chunk[0] * chunk[1] * chunks) * H5Tget_size(type.get());
    constexpr std::size_t kCacheLimit = std::size_t{256} << 20;
    // Chunks that were read in full go first. With 1.0 others would never go (H5D__chunk_cache_prune), whatever the limit:
    // the last of a row of chunks, where part of it is beyond the matrix, is never read in full.
    constexpr double kPreemption = 0.75;
    H5Pset_chunk_cache(access.get(), 12421, std::min(kCacheLimit, 2 * row_of_chunks), kPreemption);
  }
  return access;
}

/// Local, also in a file that was opened by MPI-IO: only what changes metadata is collective.
Hdf5Handle open_dataset(hid_t file, const std::string& name, const std::string& path, const Hdf5Handle& access) {
  Hdf5Handle dataset(H5Dopen2(file, name.c_str(), access.get()), H5Dclose);
  check_h5(dataset.get(), ErrorKind::kInput, fmt::format("cannot open dataset {} of '{}'", name, path));
  return dataset;
}

void read_shape(hid_t dataset, StoredFacts& facts) {
  const Hdf5Handle space(H5Dget_space(dataset), H5Sclose);
  facts.rank = H5Sget_simple_extent_ndims(space.get());
  std::array<hsize_t, 2> dims = {0, 1};
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  // The product may not overflow, nor one dimension alone where the other is 0.
  constexpr auto kMost = static_cast<hsize_t>(std::numeric_limits<std::int64_t>::max() / 16);
  require(std::max(dims[0], dims[1]) <= kMost && dims[0] <= kMost / std::max<hsize_t>(1, dims[1]), ErrorKind::kInput,
          fmt::format("{} claims {} x {} elements", place_text(facts), dims[0], dims[1]));
  facts.rows = static_cast<std::int64_t>(dims[0]);
  facts.cols = static_cast<std::int64_t>(dims[1]);
}

void check_filter(hid_t creation, unsigned index, StoredFacts& facts) {
  H5Z_filter_t id = 0;
  const std::string filter = filter_name(creation, index, id);
  const bool available = H5Zfilter_avail(id) > 0;
  H5Eclear2(H5E_DEFAULT);
  require(
      available, ErrorKind::kInput,
      fmt::format("{} is compressed with filter '{}', which this HDF5 does not have; rewrite it: h5repack -f GZIP=1 "
                  "IN OUT",
                  place_text(facts), filter));
  facts.layout += ", " + filter;
}

/// chunks  out: of a dataset in chunks
void read_layout(hid_t dataset, StoredFacts& facts, Hdf5Chunks& chunks) {
  const Hdf5Handle creation(H5Dget_create_plist(dataset), H5Pclose);
  require(H5Pget_external_count(creation.get()) <= 0, ErrorKind::kInput,
          fmt::format("{} keeps its data in external files; copy it into one file (h5repack)", place_text(facts)));
  switch (H5Pget_layout(creation.get())) {
    case H5D_CONTIGUOUS: {
      facts.layout = "contiguous";
      const haddr_t offset = H5Dget_offset(dataset);  // from the start of the file, a user block counted
      H5Eclear2(H5E_DEFAULT);                         // none yet: no elements
      if (offset != HADDR_UNDEF) facts.offset = static_cast<std::int64_t>(offset);
      break;
    }
    case H5D_COMPACT: {
      facts.layout = "compact";
      // HDF5 1.10 reads what is there, and gives what memory held before for the rest.
      const hsize_t stored = H5Dget_storage_size(dataset);
      const auto needed = static_cast<hsize_t>(facts.rows * facts.cols * stored_size(facts.type));
      require(stored == needed, ErrorKind::kInput,
              fmt::format("{} is corrupt: it claims {} bytes and needs {}", place_text(facts), stored, needed));
      break;
    }
    case H5D_CHUNKED: {
      const std::array<hsize_t, 2> chunk = chunk_of(creation.get(), facts.rank);
      facts.layout = facts.rank == 2 ? fmt::format("chunked ({} x {})", chunk[0], chunk[1])
                                     : fmt::format("chunked ({})", chunk[0]);
      const int filters = H5Pget_nfilters(creation.get());
      for (int i = 0; i < filters; ++i) check_filter(creation.get(), static_cast<unsigned>(i), facts);
      chunks = Hdf5Chunks(dataset, place_text(facts), facts.rows, facts.cols, stored_size(facts.type));
      if (chunks.missing() > 0) {
        facts.warnings.push_back(
            fmt::format("{} chunks of {} were never written and read as its fill value (usually 0)", chunks.missing(),
                        place_text(facts)));
      }
      const Hdf5Handle access(H5Dget_access_plist(dataset), H5Pclose);
      std::size_t slots = 0, bytes = 0;
      double preemption = 0;
      check_h5(H5Pget_chunk_cache(access.get(), &slots, &bytes, &preemption), ErrorKind::kInput, "H5Pget_chunk_cache");
      // A chunk that is decompressed lies in memory as it is stored and as it becomes, whatever the cache takes.
      facts.cache_bytes = static_cast<std::int64_t>(bytes);
      if (filters > 0) facts.cache_bytes = std::max(facts.cache_bytes, chunks.bytes()) + chunks.bytes();
      break;
    }
    default:
      throw Error(ErrorKind::kInput, fmt::format("{} is virtual (it points to other files); give those files as row "
                                                 "shards, or copy it into one file (h5repack)",
                                                 place_text(facts)));
  }
  H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
  check_h5(H5Dget_space_status(dataset, &status), ErrorKind::kInput, "H5Dget_space_status");
  require(status != H5D_SPACE_STATUS_NOT_ALLOCATED || facts.rows * facts.cols == 0, ErrorKind::kInput,
          fmt::format("{} was created but never written (it would read as zeros)", place_text(facts)));
}

StoredFacts facts_of(const Hdf5File& file, const std::string& name, const Hdf5Handle& dataset, Hdf5Chunks& chunks) {
  StoredFacts facts;
  facts.path = file.path();
  facts.name = name;
  facts.file_identity = file.input().identity();
  const std::string where = place_text(facts);
  read_shape(dataset.get(), facts);
  const Hdf5Type type = hdf5_type_of(dataset, where);
  facts.type = type.type;
  facts.big_endian = type.big_endian;
  if (!type.warning.empty()) facts.warnings.push_back(type.warning);
  facts.matlab = H5Aexists(dataset.get(), "MATLAB_class") > 0;
  require(H5Aexists(dataset.get(), "MATLAB_empty") <= 0, ErrorKind::kInput,
          fmt::format("{} is empty: MATLAB stored no elements", where));
  read_layout(dataset.get(), facts, chunks);
  facts.place = fmt::format("object {}", object_address(dataset.get()));
  return facts;
}

}  // namespace

// 256 MiB: below the 2 GiB at which an independent transfer of parallel HDF5 fails, and no slower (platform recipes).
std::int64_t Hdf5Dataset::block_bytes = std::int64_t{256} << 20;

Hdf5Dataset::Hdf5Dataset(const Hdf5File& file, const std::string& name, bool by_columns)
    : Hdf5Dataset(file, name, open_cached(file, name, by_columns), {}) {}

Hdf5Dataset::Hdf5Dataset(const Hdf5File& file, const std::string& name, Opened opened, Hdf5Chunks chunks)
    : StoredMatrix(facts_of(file, name, opened.dataset, chunks)),
      chunks_(std::move(chunks)),
      file_(file.handle()),
      access_(std::move(opened.access)),
      dataset_(std::move(opened.dataset)),
      file_type_(H5Dget_type(dataset_.get()), H5Tclose),
      parallel_(file.parallel()) {
  release();
}

Hdf5Dataset::Opened Hdf5Dataset::open_cached(const Hdf5File& file, const std::string& name, bool by_columns) {
  Opened opened;
  opened.access = access_of(file, name, by_columns);
  opened.dataset = open_dataset(file.handle(), name, file.path(), opened.access);
  return opened;
}

void Hdf5Dataset::release() {
  if (facts().cache_bytes == 0) return;
  dataset_ = {};
}

void Hdf5Dataset::read_first_chunk(std::int64_t largest) {
  if (is_direct() || facts().offset >= 0 || facts().rows * facts().cols == 0 || chunks_.bytes() > largest) return;
  std::array<std::byte, 16> element{};
  read_selection({0, 1}, {0, 1}, element.data(), element_bytes());
  release();
}

hid_t Hdf5Dataset::opened() {
  if (dataset_.get() < 0) dataset_ = open_dataset(file_, facts().name, facts().path, access_);
  return dataset_.get();
}

std::string Hdf5Dataset::library_mode() const {
  return parallel_ ? "mpio independent" : "serial HDF5, each rank by itself";
}

void Hdf5Dataset::read_selection(RowRange rows, RowRange cols, std::byte* out, std::int64_t pitch) {
  const hid_t dataset = opened();
  const Hdf5Handle file_space(H5Dget_space(dataset), H5Sclose);
  const std::array<hsize_t, 2> start = {static_cast<hsize_t>(rows.begin), static_cast<hsize_t>(cols.begin)};
  const std::array<hsize_t, 2> extent = {static_cast<hsize_t>(rows.size()), static_cast<hsize_t>(cols.size())};
  check_h5(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr),
           ErrorKind::kInternal, "H5Sselect_hyperslab");
  const std::array<hsize_t, 2> memory = {extent[0], static_cast<hsize_t>(pitch / element_bytes())};
  const std::array<hsize_t, 2> origin = {0, 0};
  const Hdf5Handle memory_space(H5Screate_simple(facts().rank, memory.data(), nullptr), H5Sclose);
  check_h5(H5Sselect_hyperslab(memory_space.get(), H5S_SELECT_SET, origin.data(), nullptr, extent.data(), nullptr),
           ErrorKind::kInternal, "H5Sselect_hyperslab");
  const std::string what = fmt::format("cannot read rows {} to {}, columns {} to {}, of {}", rows.begin, rows.end,
                                       cols.begin, cols.end, place_text(facts()));
  chunks_.check(dataset, rows, cols, what);
  // The file's own type: HDF5 converts nothing (its float16 conversions are slow and, narrowing, wrong).
  check_h5(H5Dread(dataset, file_type_.get(), memory_space.get(), file_space.get(), H5P_DEFAULT, out),
           ErrorKind::kInput, what);
}

void Hdf5Dataset::read_rows_by_library(RowRange rows, std::byte* out) {
  const std::int64_t row_bytes = facts().cols * element_bytes();
  if (row_bytes == 0) return;
  const std::int64_t block_rows = std::max<std::int64_t>(1, block_bytes / row_bytes);
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += block_rows) {
    const std::int64_t end = std::min(begin + block_rows, rows.end);
    read_selection({begin, end}, {0, facts().cols}, out + (begin - rows.begin) * row_bytes, row_bytes);
  }
}

void Hdf5Dataset::read_columns_by_library(RowRange cols, std::byte* out, std::int64_t pitch) {
  const std::int64_t block_rows = std::max<std::int64_t>(1, block_bytes / (cols.size() * element_bytes()));
  for (std::int64_t begin = 0; begin < facts().rows; begin += block_rows) {
    const std::int64_t end = std::min(begin + block_rows, facts().rows);
    read_selection({begin, end}, cols, out + begin * pitch, pitch);
  }
}

}  // namespace tallsketch
