#include "src/hdf5_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <tuple>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/communicator.h"
#include "src/error.h"
#include "src/text.h"

namespace tallsketch {

namespace {

void check_h5(long long status, ErrorKind kind, const std::string& what) {
  if (status >= 0) return;
  throw Error(kind, fmt::format("{}: {}", what, hdf5_error_text()));
}

/// Everything about the file that needs no HDF5, so that the message can be in the user's terms.
void check_readable(const std::string& path) {
  struct stat info {};
  const bool found = ::stat(path.c_str(), &info) == 0;  // errno is read after it, which one call would not ensure
  const std::string reason = found ? "" : std::strerror(errno);
  const auto colon = path.rfind(':');
  const std::string hint = colon == std::string::npos
                               ? std::string()
                               : fmt::format("; if '{0}' was meant as a dataset, it needs a slash: {1}:/{0}",
                                             path.substr(colon + 1), path.substr(0, colon));
  require(found, ErrorKind::kInput, fmt::format("cannot open '{}': {}{}", path, reason, hint));
  require(!S_ISDIR(info.st_mode), ErrorKind::kInput, fmt::format("'{}' is a directory, not an HDF5 file", path));
  require(S_ISREG(info.st_mode), ErrorKind::kInput, fmt::format("'{}' is not a regular file", path));
  require(info.st_size > 0, ErrorKind::kInput, fmt::format("'{}' is empty (0 bytes)", path));
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(descriptor >= 0, ErrorKind::kInput, fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  ::close(descriptor);
  const htri_t is_hdf5 = H5Fis_hdf5(path.c_str());
  H5Eclear2(H5E_DEFAULT);
  require(is_hdf5 > 0, ErrorKind::kInput,
          fmt::format("'{}' is not an HDF5 file ({} bytes, no HDF5 signature)", path, info.st_size));
}

/// "truncated: 60000 of 476230 bytes" where HDF5 says so in its own words, else HDF5's words.
std::string open_failure(const std::string& path, const std::string& text) {
  const auto eof = text.find("eof = ");
  const auto stored = text.find("stored_eof = ");
  if (eof == std::string::npos || stored == std::string::npos) return fmt::format("cannot open '{}': {}", path, text);
  return fmt::format("'{}' is truncated: {} of {} bytes", path, std::strtoull(text.c_str() + eof + 6, nullptr, 10),
                     std::strtoull(text.c_str() + stored + 13, nullptr, 10));
}

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

std::string type_words(hid_t type) {
  const std::size_t bits = 8 * H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: return fmt::format("{}int{}", H5Tget_sign(type) == H5T_SGN_NONE ? "u" : "", bits);
    case H5T_FLOAT: return fmt::format("a {}-bit float that is not IEEE", bits);
    case H5T_STRING: return "text";
    case H5T_COMPOUND: return "compound (complex numbers are stored so)";
    case H5T_ENUM: return "an enumeration (booleans are stored so)";
    default: return "neither float nor integer";
  }
}

bool is_ieee(hid_t type, std::size_t exponent_bits, std::size_t mantissa_bits) {
  std::size_t sign = 0, exponent = 0, exponent_size = 0, mantissa = 0, mantissa_size = 0;
  if (H5Tget_fields(type, &sign, &exponent, &exponent_size, &mantissa, &mantissa_size) < 0) return false;
  return exponent_size == exponent_bits && mantissa_size == mantissa_bits && mantissa == 0 &&
         exponent == mantissa_bits && sign == mantissa_bits + exponent_bits && H5Tget_norm(type) == H5T_NORM_IMPLIED &&
         H5Tget_ebias(type) == (std::size_t{1} << (exponent_bits - 1)) - 1;
}

herr_t list_dataset(hid_t, const char* name, const H5O_info_t* info, void* names) {
  if (info->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(names)->push_back(std::string("/") + name);
  return 0;
}

std::string dataset_list(hid_t file) {
  std::vector<std::string> names;
#if H5_VERSION_GE(1, 12, 0) && !defined(H5_USE_110_API)
  H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_INC, list_dataset, &names, H5O_INFO_BASIC);
#else
  H5Ovisit(file, H5_INDEX_NAME, H5_ITER_INC, list_dataset, &names);
#endif
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
/// Which file an object lives in: not the one that was opened, where an external link led to it.
unsigned long file_number(hid_t object) {
  H5O_info_t info{};
#if H5_VERSION_GE(1, 12, 0) && !defined(H5_USE_110_API)
  check_h5(H5Oget_info3(object, &info, H5O_INFO_BASIC), ErrorKind::kInput, "H5Oget_info");
#else
  check_h5(H5Oget_info(object, &info), ErrorKind::kInput, "H5Oget_info");
#endif
  return info.fileno;
}

void swap_bytes(void* data, std::int64_t count, std::int64_t width) {
  if (width == 2) {
    auto* p = static_cast<std::uint16_t*>(data);
    for (std::int64_t i = 0; i < count; ++i) p[i] = __builtin_bswap16(p[i]);
  } else if (width == 4) {
    auto* p = static_cast<std::uint32_t*>(data);
    for (std::int64_t i = 0; i < count; ++i) p[i] = __builtin_bswap32(p[i]);
  } else {
    auto* p = static_cast<std::uint64_t*>(data);
    for (std::int64_t i = 0; i < count; ++i) p[i] = __builtin_bswap64(p[i]);
  }
}

herr_t collect_error(unsigned, const H5E_error2_t* error, void* text) {
  auto& all = *static_cast<std::string*>(text);
  if (error->desc != nullptr && *error->desc != '\0') all += (all.empty() ? "" : "; ") + std::string(error->desc);
  return 0;
}

}  // namespace

void initialise_hdf5() {
  // Compute nodes mount file systems without locks (Lustre, NFS); input is only read, so a lock protects nothing.
  ::setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  H5PLset_loading_state(0);
}

std::string hdf5_error_text() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect_error, &text);
  H5Eclear2(H5E_DEFAULT);
  return text.empty() ? "no reason given by HDF5" : text;
}

namespace {

/// Size and time of last modification, in nanoseconds; zeros for a file that cannot be asked.
std::pair<std::int64_t, std::int64_t> size_and_time(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {0, 0};
  return {info.st_size, std::int64_t{info.st_mtim.tv_sec} * 1000000000 + info.st_mtim.tv_nsec};
}

// Open MPI 4.1's sharedfp component formats a name of its own from the path into 256 bytes and aborts beyond.
constexpr std::size_t kLongestMpiPath = 200;

}  // namespace

std::string Hdf5File::identity() const { return fmt::format("'{}' ({} bytes, {})", path_, bytes_, modified_ns_); }

void Hdf5File::check_unchanged() const {
  const auto [bytes, modified] = size_and_time(path_);
  require(bytes == bytes_ && modified == modified_ns_, ErrorKind::kInput,
          fmt::format("'{}' was changed while it was read ({} bytes at first, now {}); run again when it is complete",
                      path_, bytes_, bytes));
}

Hdf5File Hdf5File::open(const std::string& path, const Communicator* comm) {
  Hdf5File result;
  result.path_ = path;
  std::tie(result.bytes_, result.modified_ns_) = size_and_time(path);
  const auto open_with = [&](hid_t access) {
    result.file_ = Hdf5Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), H5Fclose);
    if (result.file_.get() < 0) throw Error(ErrorKind::kInput, open_failure(path, hdf5_error_text()));
  };
#if TALLSKETCH_HDF5_PARALLEL
  if (comm != nullptr && path.size() <= kLongestMpiPath) {
    comm->together([&] { initialise_hdf5(), check_readable(path); });
    result.parallel_ = true;
    const Hdf5Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
    comm->together([&] {
      check_h5(H5Pset_fapl_mpio(access.get(), comm->handle(), MPI_INFO_NULL), ErrorKind::kInternal, "H5Pset_fapl_mpio");
    });
    comm->together([&] { open_with(access.get()); });  // H5Fopen is collective: reached by all, or by none
    return result;
  }
#endif
  const auto open_alone = [&] {
    initialise_hdf5();
    check_readable(path);
    open_with(H5P_DEFAULT);
  };
  if (comm != nullptr) {
    comm->together(open_alone);
  } else {
    open_alone();
  }
  return result;
}

bool Hdf5File::has(const std::string& name) const {
  const bool found = H5Oexists_by_name(file_.get(), name.c_str(), H5P_DEFAULT) > 0;
  H5Eclear2(H5E_DEFAULT);
  return found;
}

Hdf5Dataset Hdf5File::dataset(const std::string& name) const {
  Hdf5Dataset d;
  d.path_ = path_;
  d.name_ = name;
  require(has(name), ErrorKind::kInput,
          fmt::format("'{}' has no dataset {} ({}); name it with --a, --b or FILE:/name", path_, name,
                      dataset_list(file_.get())));
  const Hdf5Handle probe(H5Dopen2(file_.get(), name.c_str(), H5P_DEFAULT), H5Dclose);
  if (probe.get() < 0) {
    throw Error(ErrorKind::kInput, fmt::format("cannot open dataset {} of '{}': {}", name, path_, hdf5_error_text()));
  }
  require(file_number(probe.get()) == file_number(file_.get()), ErrorKind::kInput,
          fmt::format("dataset {} of '{}' is a link into another file, '{}'; give that file itself", name, path_,
                      file_name(probe.get())));
  // A chunk cache that holds two rows of chunks, so that a chunk shared by two reads is decompressed once.
  const Hdf5Handle creation(H5Dget_create_plist(probe.get()), H5Pclose);
  const Hdf5Handle access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  const Hdf5Handle space(H5Dget_space(probe.get()), H5Sclose);
  const Hdf5Handle type(H5Dget_type(probe.get()), H5Tclose);
  d.rank_ = H5Sget_simple_extent_ndims(space.get());
  require(d.rank_ == 1 || d.rank_ == 2, ErrorKind::kInput,
          fmt::format("dataset {} of '{}' has {} dimensions; a matrix (m, n) or a vector (m) is needed", name, path_,
                      d.rank_));
  std::array<hsize_t, 2> dims = {0, 1};
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  require(
      dims[0] <= static_cast<hsize_t>(std::numeric_limits<std::int64_t>::max() / 16) / std::max<hsize_t>(1, dims[1]),
      ErrorKind::kInput, fmt::format("dataset {} of '{}' claims {} x {} elements", name, path_, dims[0], dims[1]));
  d.rows_ = static_cast<std::int64_t>(dims[0]);
  d.cols_ = static_cast<std::int64_t>(dims[1]);
  if (H5Pget_layout(creation.get()) == H5D_CHUNKED) {
    std::array<hsize_t, 2> chunk = {1, 1};
    H5Pget_chunk(creation.get(), d.rank_, chunk.data());
    const std::size_t across = static_cast<std::size_t>((dims[1] + chunk[1] - 1) / chunk[1]);
    const std::size_t row_of_chunks = static_cast<std::size_t>(chunk[0] * chunk[1]) * H5Tget_size(type.get()) * across;
    constexpr std::size_t kCacheLimit = std::size_t{256} << 20;
    const std::size_t cache = std::min(kCacheLimit, 2 * row_of_chunks);
    H5Pset_chunk_cache(access.get(), 12421, cache, 1.0);
  }
  d.dataset_ = Hdf5Handle(H5Dopen2(file_.get(), name.c_str(), access.get()), H5Dclose);
  check_h5(d.dataset_.get(), ErrorKind::kInput, fmt::format("cannot open dataset {} of '{}'", name, path_));
  d.file_type_ = Hdf5Handle(H5Dget_type(d.dataset_.get()), H5Tclose);
  d.inspect_type();
  d.inspect_layout();
  return d;
}

void Hdf5Dataset::inspect_type() {
  const hid_t type = file_type_.get();
  const bool is_float = H5Tget_class(type) == H5T_FLOAT;
  const std::size_t size = H5Tget_size(type);
  if (is_float && size == 4 && is_ieee(type, 8, 23)) {
    type_ = ElementType::kFloat32;
  } else if (is_float && size == 8 && is_ieee(type, 11, 52)) {
    type_ = ElementType::kFloat64;
  } else if (is_float && size == 2 && is_ieee(type, 5, 10)) {
    type_ = ElementType::kFloat16;
  } else {
    throw Error(
        ErrorKind::kInput,
        fmt::format("dataset {} of '{}' is {}; float16, float32 and float64 can be read (convert it, for example "
                    "with h5py's .astype('float32'))",
                    name_, path_, type_words(type)));
  }
  big_endian_ = H5Tget_order(type) == H5T_ORDER_BE;
}

void Hdf5Dataset::inspect_layout() {
  const Hdf5Handle creation(H5Dget_create_plist(dataset_.get()), H5Pclose);
  require(H5Pget_external_count(creation.get()) <= 0, ErrorKind::kInput,
          fmt::format("dataset {} of '{}' keeps its data in external files; copy it into one file (h5repack)", name_,
                      path_));
  switch (H5Pget_layout(creation.get())) {
    case H5D_CONTIGUOUS: layout_ = "contiguous"; break;
    case H5D_COMPACT: layout_ = "compact"; break;
    case H5D_CHUNKED: {
      std::array<hsize_t, 2> chunk = {1, 1};
      H5Pget_chunk(creation.get(), rank_, chunk.data());
      layout_ =
          rank_ == 2 ? fmt::format("chunked ({} x {})", chunk[0], chunk[1]) : fmt::format("chunked ({})", chunk[0]);
      check_filters(creation.get());
      for (int i = 0; i < H5Pget_nfilters(creation.get()); ++i) {
        H5Z_filter_t id = 0;
        layout_ += ", " + filter_name(creation.get(), static_cast<unsigned>(i), id);
      }
      count_missing_chunks((rows_ + static_cast<std::int64_t>(chunk[0]) - 1) / static_cast<std::int64_t>(chunk[0]) *
                           ((cols_ + static_cast<std::int64_t>(chunk[1]) - 1) / static_cast<std::int64_t>(chunk[1])));
      break;
    }
    default:
      throw Error(ErrorKind::kInput, fmt::format("dataset {} of '{}' is virtual (it points to other files); give those "
                                                 "files as row shards, or copy it into one file (h5repack)",
                                                 name_, path_));
  }
  H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
  check_h5(H5Dget_space_status(dataset_.get(), &status), ErrorKind::kInput, "H5Dget_space_status");
  require(status != H5D_SPACE_STATUS_NOT_ALLOCATED || rows_ * cols_ == 0, ErrorKind::kInput,
          fmt::format("dataset {} of '{}' was created but never written (it would read as zeros)", name_, path_));
}

void Hdf5Dataset::count_missing_chunks(std::int64_t all) {
#if H5_VERSION_GE(1, 10, 5)
  const Hdf5Handle space(H5Dget_space(dataset_.get()), H5Sclose);
  hsize_t written = 0;
  check_h5(H5Dget_num_chunks(dataset_.get(), space.get(), &written), ErrorKind::kInput, "H5Dget_num_chunks");
  missing_chunks_ = std::max<std::int64_t>(0, all - static_cast<std::int64_t>(written));
#else
  static_cast<void>(all);
#endif
}

void Hdf5Dataset::check_filters(hid_t creation) const {
  for (int i = 0; i < H5Pget_nfilters(creation); ++i) {
    H5Z_filter_t id = 0;
    const std::string filter = filter_name(creation, static_cast<unsigned>(i), id);
    const bool available = H5Zfilter_avail(id) > 0;
    H5Eclear2(H5E_DEFAULT);
    require(available, ErrorKind::kInput,
            fmt::format("dataset {} of '{}' is compressed with filter '{}', which this HDF5 does not have; rewrite it: "
                        "h5repack -f GZIP=1 IN OUT",
                        name_, path_, filter));
  }
}

std::string Hdf5Dataset::type_text() const { return std::string(to_word(type_)) + (big_endian_ ? " big-endian" : ""); }

// 256 MiB: below the 2 GiB at which an independent transfer of parallel HDF5 fails, and no slower (platform recipes).
std::int64_t Hdf5Dataset::block_bytes = std::int64_t{256} << 20;

void Hdf5Dataset::read(RowRange rows, void* out) const {
  require(rows.begin >= 0 && rows.end <= rows_, ErrorKind::kInternal,
          fmt::format("rows {}..{} of {} with {} rows", rows.begin, rows.end, name_, rows_));
  const std::int64_t width = element_size(type_);
  const std::int64_t row_bytes = cols_ * width;
  const std::int64_t block_rows = std::max<std::int64_t>(1, block_bytes / std::max<std::int64_t>(1, row_bytes));
  const Hdf5Handle file_space(H5Dget_space(dataset_.get()), H5Sclose);
  for (std::int64_t begin = rows.begin; begin < rows.end; begin += block_rows) {
    const std::int64_t count = std::min(block_rows, rows.end - begin);
    const std::array<hsize_t, 2> start = {static_cast<hsize_t>(begin), 0};
    const std::array<hsize_t, 2> extent = {static_cast<hsize_t>(count), static_cast<hsize_t>(cols_)};
    check_h5(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr),
             ErrorKind::kInternal, "H5Sselect_hyperslab");
    const Hdf5Handle memory_space(H5Screate_simple(rank_, extent.data(), nullptr), H5Sclose);
    auto* at = static_cast<char*>(out) + (begin - rows.begin) * row_bytes;
    // The file's own type: HDF5 converts nothing (its float16 conversions are slow and, narrowing, wrong).
    check_h5(H5Dread(dataset_.get(), file_type_.get(), memory_space.get(), file_space.get(), H5P_DEFAULT, at),
             ErrorKind::kInput,
             fmt::format("cannot read rows {} to {} of {} in '{}'", begin, begin + count, name_, path_));
  }
  if (big_endian_) swap_bytes(out, rows.size() * cols_, width);
}

}  // namespace tallsketch
