// Sources of any format and orientation: what is delivered as stored decodes to what is delivered decoded, whatever rows
// are asked for; columns of chunks are decompressed once; identity; files that change. Files of h5py and numpy are read in
// read_other_files.py.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "kernels/decode_host.h"
#include "kernels/rounding.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/file_source.h"
#include "src/hdf5_file.h"
#include "src/offset_source.h"
#include "src/row_pass.h"
#include "src/row_shards.h"
#include "tests/support/error_kind.h"
#include "tests/support/mpi_check.h"

using namespace tallsketch;

namespace {

float entry(std::int64_t i, std::int64_t j) { return static_cast<float>((7 * i + 3 * j) % 1000); }

struct Storage {
  hid_t type = H5T_IEEE_F32LE;
  bool transposed = false;
  hsize_t chunk[2] = {0, 0};  // 0: contiguous
  int filter = 0;             // 0: none
};

/// Rows [begin, end) of entry(), n columns, as dataset A; b beside it holds the row numbers.
void write_rows(const std::string& path, std::int64_t begin, std::int64_t end, std::int64_t n, const Storage& storage) {
  const auto m = static_cast<std::size_t>(end - begin);
  std::vector<float> a(m * static_cast<std::size_t>(n)), b(m);
  for (std::int64_t i = begin; i < end; ++i) {
    b[static_cast<std::size_t>(i - begin)] = static_cast<float>(i);
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t at = storage.transposed ? j * (end - begin) + i - begin : (i - begin) * n + j;
      a[static_cast<std::size_t>(at)] = entry(i, j);
    }
  }
  hsize_t dims[2] = {m, static_cast<hsize_t>(n)};
  if (storage.transposed) std::swap(dims[0], dims[1]);
  const Hdf5Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  const hsize_t length = m;
  const Hdf5Handle space(H5Screate_simple(2, dims, nullptr), H5Sclose);
  const Hdf5Handle line(H5Screate_simple(1, &length, nullptr), H5Sclose);
  const Hdf5Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  if (storage.chunk[0] > 0) H5Pset_chunk(creation.get(), 2, storage.chunk);
  if (storage.filter > 0) H5Pset_filter(creation.get(), storage.filter, H5Z_FLAG_MANDATORY, 0, nullptr);
  const Hdf5Handle set(H5Dcreate2(file.get(), "A", storage.type, space.get(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
                       H5Dclose);
  const Hdf5Handle rhs(H5Dcreate2(file.get(), "b", H5T_IEEE_F32LE, line.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                       H5Dclose);
  if (m > 0) H5Dwrite(set.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, a.data());
  if (m > 0) H5Dwrite(rhs.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, b.data());
}

/// Files that rank 0 makes and removes, of the same names on all ranks.
class Files {
 public:
  explicit Files(const Communicator& comm) : comm_(comm) {
    initialise_hdf5();
    folder_ = comm.broadcast(
        (std::filesystem::temp_directory_path() / ("tallsketch-source-" + std::to_string(::getpid()))).string());
    if (comm.is_root()) std::filesystem::create_directory(folder_);
    comm.barrier();
  }
  ~Files() {
    MPI_Barrier(comm_.handle());
    if (comm_.is_root()) std::filesystem::remove_all(folder_);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  std::string at(const std::string& name) const { return (std::filesystem::path(folder_) / name).string(); }
  std::string add(const std::string& name, std::int64_t begin, std::int64_t end, std::int64_t n,
                  const Storage& storage) const {
    if (comm_.is_root()) write_rows(at(name), begin, end, n, storage);
    comm_.barrier();
    return at(name);
  }

 private:
  const Communicator& comm_;
  std::string folder_;
};

InputOptions options_of(const std::vector<std::string>& files, bool transpose, IoChoice io = IoChoice::kAuto) {
  InputOptions options;
  options.files = files;
  options.transpose = transpose;
  options.io = io;
  return options;
}

/// Whether read and read_encoded give the entries of some rows, as the type of A says.
bool gives(RowSource& source, RowRange rows) {
  const ProblemShape& shape = source.shape();
  const auto count = static_cast<std::size_t>(rows.size() * shape.n);
  std::vector<std::byte> stored(8 * count);
  std::vector<double> read(count), decoded(count), b(static_cast<std::size_t>(rows.size())), b_again = b;
  source.read(rows, read.data(), b.data());
  source.read_encoded(rows, stored.data(), b_again.data());
  host::decode({stored.data(), rows.size(), shape.n, source.encoding()}, decoded.data(), shape.a_type, 2);
  bool right = b == b_again;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    right = right && b[static_cast<std::size_t>(i)] == static_cast<double>(rows.begin + i);
    for (std::int64_t j = 0; j < shape.n; ++j) {
      const auto at = static_cast<std::size_t>(i * shape.n + j);
      const auto value = [&](const std::vector<double>& of) {
        return shape.a_type == ElementType::kFloat64 ? of[at] : double{reinterpret_cast<const float*>(of.data())[at]};
      };
      right = right && value(read) == double{entry(rows.begin + i, j)} && value(decoded) == value(read);
    }
  }
  return right;
}

/// Reads rows once, in order, in chunks, and calls between(): whether they are the entries.
bool reads_once(
    RowSource& source, RowRange rows, std::int64_t chunk_rows, const std::function<void()>& between = [] {}) {
  const std::int64_t n = source.shape().n;
  std::vector<float> a(static_cast<std::size_t>(chunk_rows * n));
  std::vector<double> b(static_cast<std::size_t>(chunk_rows));
  bool right = source.shape().a_type == ElementType::kFloat32;
  for_each_chunk(rows, chunk_rows, [&](RowRange chunk) {
    source.read(chunk, a.data(), b.data());
    between();
    for (std::int64_t i = 0; i < chunk.size(); ++i) {
      right = right && b[static_cast<std::size_t>(i)] == static_cast<double>(chunk.begin + i);
      for (std::int64_t j = 0; j < n; ++j) {
        right = right && a[static_cast<std::size_t>(i * n + j)] == entry(chunk.begin + i, j);
      }
    }
  });
  return right;
}

/// All rows in chunks, from another place on every rank; single rows; none.
bool gives_all(RowSource& source, const Communicator& comm) {
  const std::int64_t m = source.shape().m, begin = m * comm.rank() / comm.size();
  bool right = gives(source, {m - 1, m}) && gives(source, {begin, begin});
  for (std::int64_t row = begin; row < m; row += 701) right = right && gives(source, {row, std::min(m, row + 701)});
  return right;
}

ssize_t open_datasets() { return H5Fget_obj_count(static_cast<hid_t>(H5F_OBJ_ALL), H5F_OBJ_DATASET); }

int decoded_chunks = 0;

std::size_t count_decoding(unsigned flags, std::size_t, const unsigned*, std::size_t bytes, std::size_t*, void**) {
  if ((flags & H5Z_FLAG_REVERSE) != 0) ++decoded_chunks;
  return bytes;
}

void register_counting_filter(int id) {
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, id, 1, 1, "counting", nullptr, nullptr, count_decoding};
  H5Zregister(&filter);
}

}  // namespace

TEST_CASE("(n, m) storage is read by its columns, in every type, order, layout and way (C-08)") {
  const Communicator comm(MPI_COMM_WORLD);
  const Files files(comm);
  for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{2003, 7}, {6007, 64}, {5, 5}, {9, 1}}) {
    for (const hid_t type : {H5T_IEEE_F32LE, H5T_IEEE_F64BE, H5T_STD_I16BE, H5T_STD_I64LE}) {
      const std::string plain = files.add("plain.h5", 0, m, n, {type, true, {0, 0}, 0});
      for (const IoChoice io : {IoChoice::kAuto, IoChoice::kMpio, IoChoice::kDirect}) {
        const auto source = open_file_source(options_of({plain}, true, io), comm);
        MPI_REQUIRE(source->shape().m == m && source->shape().n == n);
        MPI_REQUIRE(source->encoding().by_columns == (n > 1));
        MPI_REQUIRE(gives_all(*source, comm));
      }
      const hsize_t wide = static_cast<hsize_t>(std::min<std::int64_t>(m, 100));
      const auto source =
          open_file_source(options_of({files.add("chunked.h5", 0, m, n, {type, true, {1, wide}, 0})}, true), comm);
      MPI_REQUIRE(gives_all(*source, comm));
    }
  }
}

TEST_CASE("Shards of one encoding are delivered as stored, across their borders; of several, decoded") {
  const Communicator comm(MPI_COMM_WORLD);
  const Files files(comm);
  for (const bool transposed : {false, true}) {
    const Storage little{H5T_IEEE_F32LE, transposed, {0, 0}, 0}, big{H5T_IEEE_F32BE, transposed, {0, 0}, 0};
    const std::string first = files.add("s0.h5", 0, 5, 7, little), none = files.add("s1.h5", 5, 5, 7, big),
                      second = files.add("s2.h5", 5, 1800, 7, little), third = files.add("s3.h5", 1800, 2003, 7, big);
    auto same = open_file_source(options_of({first, none, second}, transposed), comm);
    MPI_REQUIRE(same->encoding() == Encoding{StoredType::kFloat32, false, transposed});
    MPI_REQUIRE(gives_all(*same, comm) && gives(*same, {0, 1800}));
    auto mixed = open_file_source(options_of({first, none, second, third}, transposed), comm);
    MPI_REQUIRE(mixed->encoding() == plain_encoding(ElementType::kFloat32));
    MPI_REQUIRE(gives_all(*mixed, comm) && gives(*mixed, {0, 2003}));
    for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{28 * 100}}) {  // one row, 100 rows
      const std::int64_t before = RowShards::staging_bytes;
      RowShards::staging_bytes = bytes;
      const bool right = gives(*mixed, {0, 2003});
      RowShards::staging_bytes = before;
      MPI_REQUIRE(right);
    }
  }
}

TEST_CASE("A chunk that two reads share is decompressed once, by rows and by columns, also where chunks are large") {
  const Communicator comm(MPI_COMM_WORLD);
  const Files files(comm);
  constexpr int kFilter = 300;  // of the range for tests
  register_counting_filter(kFilter);
  // A row of chunks takes 5 KiB, or 1.4 MiB: more than the cache that HDF5 has by itself.
  for (const auto& [m, length] : {std::pair<std::int64_t, hsize_t>{2003, 64}, {200'300, 40'000}}) {
    for (const bool transposed : {false, true}) {
      const Storage storage = transposed ? Storage{H5T_IEEE_F32LE, true, {3, length}, kFilter}
                                         : Storage{H5T_IEEE_F32LE, false, {length, 3}, kFilter};
      const auto source = open_file_source(options_of({files.add("counted.h5", 0, m, 7, storage)}, transposed), comm);
      // The last of three chunks side by side has one column of A: it is never read in full, and may not stay for that.
      const std::int64_t chunks = 3 * divide_up(m, static_cast<std::int64_t>(length));
      for (int pass = 0; pass < 2; ++pass) {
        decoded_chunks = 0;
        MPI_REQUIRE(reads_once(*source, {0, m}, m / 40));
        INFO(decoded_chunks << " of " << chunks << (transposed ? ", by columns, pass " : ", by rows, pass ") << pass);
        MPI_REQUIRE(decoded_chunks <= chunks);
        MPI_REQUIRE(decoded_chunks >= (pass == 0 ? chunks : chunks - 6));  // the cache has room for six
      }
    }
  }
}

TEST_CASE(
    "Of many shards in chunks one has a cache at a time: the largest counts, and every chunk is decompressed once") {
  const Communicator comm(MPI_COMM_WORLD);
  const Files files(comm);
  constexpr int kFilter = 301;
  register_counting_filter(kFilter);
  for (const bool transposed : {false, true}) {
    std::vector<std::string> paths;
    int chunks = 0;
    for (std::int64_t k = 0; k < 12; ++k) {
      const std::int64_t begin = 150 * k, end = begin + (k == 7 ? 0 : 150);
      const hsize_t length = k == 5 ? 128 : 64;
      Storage storage{H5T_IEEE_F32LE, transposed, {transposed ? 3 : length, transposed ? length : 3}, kFilter};
      if (k == 7) storage = {H5T_IEEE_F32LE, transposed, {0, 0}, 0};
      // Shard 7 is empty: those after it begin 150 rows earlier.
      const std::int64_t before = k > 7 ? 150 : 0;
      paths.push_back(files.add(fmt::format("s{}.h5", k), begin - before, end - before, 7, storage));
      chunks += k == 7 ? 0 : 3 * (k == 5 ? 2 : 3);
    }
    const auto largest = open_file_source(options_of({paths[5]}, transposed), comm);
    // Two rows (columns) of chunks, and one chunk beside them; b, contiguous float32, 150 rows as stored and as decoded;
    // A by columns, which read decodes.
    MPI_REQUIRE(largest->buffer_bytes() == 2 * 9 * 128 * 4 + 3 * 128 * 4 + 150 * (4 + 4) + (transposed ? 150 * 28 : 0));
    const auto all = open_file_source(options_of(paths, transposed), comm);
    MPI_REQUIRE(all->shape().m == 1650);
    MPI_REQUIRE(all->buffer_bytes() == largest->buffer_bytes());
    MPI_REQUIRE(OffsetSource(*all, 5).buffer_bytes() == all->buffer_bytes());
    decoded_chunks = 0;
    const ssize_t open_before = open_datasets();
    ssize_t most_open = 0;
    const bool right = reads_once(*all, {0, 1650}, 40, [&] { most_open = std::max(most_open, open_datasets()); });
    INFO(decoded_chunks << " chunks of " << chunks << ", " << most_open << " datasets open, first " << open_before);
    MPI_REQUIRE(right);
    MPI_REQUIRE(decoded_chunks == chunks);
    MPI_REQUIRE(most_open == open_before + 1);  // of A
    MPI_REQUIRE(gives_all(*all, comm));         // back and forth
  }
}

TEST_CASE("What b of another type takes on its way to FP64 is counted and bounded, whatever the chunk") {
  const Communicator comm(MPI_COMM_WORLD);
  const Files files(comm);
  constexpr std::int64_t kMany = 400'000;
  InputOptions options = options_of({files.add("a.h5", 0, kMany, 1, {})}, false);
  for (const hid_t type : {H5T_STD_I16BE, H5T_IEEE_F32LE, H5T_IEEE_F64BE, H5T_IEEE_F64LE}) {
    options.b = files.add("b.h5", 0, kMany, 1, {type, false, {0, 0}, 0}) + ":/A";
    const auto source = open_file_source(options, comm);
    const std::int64_t bytes = source->buffer_bytes();
    INFO(bytes);
    MPI_REQUIRE(type == H5T_IEEE_F64LE ? bytes == 0 : bytes > 250'000 && bytes <= (1 << 18) + 8);
    std::vector<float> a(static_cast<std::size_t>(kMany));
    std::vector<double> b(static_cast<std::size_t>(kMany));
    source->read({0, kMany}, a.data(), b.data());
    bool right = true;
    for (std::int64_t i = 0; i < kMany; ++i) right = right && b[static_cast<std::size_t>(i)] == double{entry(i, 0)};
    MPI_REQUIRE(right);
  }
}

TEST_CASE("The buffer of A counts where rows are decoded as they are read, and is no larger than a shard") {
  const Communicator comm(MPI_COMM_WORLD);
  const Files files(comm);
  const Storage little{}, big{H5T_IEEE_F32BE, false, {0, 0}, 0};
  const std::string first = files.add("s0.h5", 0, 1000, 7, little), second = files.add("s1.h5", 1000, 3000, 7, big);
  const std::int64_t of_b = 2000 * 8;
  MPI_REQUIRE(open_file_source(options_of({first}, false), comm)->buffer_bytes() == 1000 * 8);
  MPI_REQUIRE(open_file_source(options_of({first, second}, false), comm)->buffer_bytes() == 2000 * 28 + of_b);
  const std::int64_t before = RowShards::staging_bytes;
  RowShards::staging_bytes = 2800;
  const std::int64_t lowered = open_file_source(options_of({first, second}, false), comm)->buffer_bytes();
  RowShards::staging_bytes = before;
  MPI_REQUIRE(lowered == 2800 + 10 * (4 + 4));  // 10 rows of b in 1/32 of it
}

TEST_CASE("--io direct refuses chunks and names them; the other ways take them") {
  const Communicator comm(MPI_COMM_WORLD);
  const Files files(comm);
  const std::string chunked = files.add("chunked.h5", 0, 2003, 7, {H5T_IEEE_F32LE, false, {64, 7}, 0});
  std::string message;
  try {
    open_file_source(options_of({chunked}, false, IoChoice::kDirect), comm);
  } catch (const Error& e) {
    MPI_REQUIRE(e.kind() == ErrorKind::kUsage);
    message = e.what();
  }
  MPI_REQUIRE(message.find("chunked (64 x 7)") != std::string::npos && message.find("/A") != std::string::npos);
  const auto source = open_file_source(options_of({chunked}, false, IoChoice::kMpio), comm);
  MPI_REQUIRE(gives_all(*source, comm));
}

TEST_CASE("A file that is shortened while it is read is an error of input") {
  const Communicator comm(MPI_COMM_WORLD);
  const Files files(comm);
  const std::string path = files.add("short.h5", 0, 2003, 7, {});
  const auto source = open_file_source(options_of({path}, false, IoChoice::kDirect), comm);
  MPI_REQUIRE(source->info().io_mode.starts_with("direct, "));
  comm.barrier();
  if (comm.is_root()) std::filesystem::resize_file(path, 20000);
  comm.barrier();
  std::vector<float> a(2003 * 7);
  std::vector<double> b(2003);
  MPI_REQUIRE(error_kind_of([&] { source->read({0, 2003}, a.data(), b.data()); }) == ErrorKind::kInput);
  MPI_REQUIRE(error_kind_of([&] { source->check_unchanged(); }) == ErrorKind::kInput);
}

TEST_CASE("The identity of input is one line, the same by another name, another after a change") {
  const Communicator comm(MPI_COMM_WORLD);
  const Files files(comm);
  const std::string path = files.add("one.h5", 0, 100, 7, {});
  const auto identity_of = [&](const InputOptions& options) { return open_file_source(options, comm)->identity(); };
  const std::string first = identity_of(options_of({path}, false));
  MPI_REQUIRE(first.size() > 40 && first.find('\n') == std::string::npos && first.find(path) == std::string::npos);
  MPI_REQUIRE(identity_of(options_of({path}, false, IoChoice::kDirect)) == first);
  comm.barrier();
  if (comm.is_root()) std::filesystem::rename(path, files.at("two.h5"));
  comm.barrier();
  MPI_REQUIRE(identity_of(options_of({files.at("two.h5")}, false)) == first);
  InputOptions other = options_of({files.at("two.h5")}, false);
  other.b = "/A";  // (100, 7): another b
  MPI_REQUIRE(identity_of(other) != first);
  // Size, first bytes and time of the last change, each alone. After what changes the file the time is put back.
  const std::string two = files.at("two.h5");
  const auto time = std::filesystem::last_write_time(two);
  const auto flip = [&] {  // in an entry, or between: nothing that HDF5 looks at
    std::fstream file(two, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(3000);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(3000);
    file.put(byte);
  };
  const auto size = std::filesystem::file_size(two);
  const auto after = [&](const std::function<void()>& change, std::chrono::seconds later = {}) {
    comm.barrier();
    if (comm.is_root()) {
      change();
      std::filesystem::last_write_time(two, time + later);
    }
    comm.barrier();
    return identity_of(options_of({two}, false));
  };
  const auto resize = [&](std::uintmax_t bytes) { return [&, bytes] { std::filesystem::resize_file(two, bytes); }; };
  MPI_REQUIRE(after(resize(size + 1)) != first);
  MPI_REQUIRE(after(resize(size)) == first);
  MPI_REQUIRE(after(flip) != first);
  MPI_REQUIRE(after(flip) == first);
  MPI_REQUIRE(after([] {}, std::chrono::seconds(5)) != first);
  MPI_REQUIRE(after([] {}) == first);
}
