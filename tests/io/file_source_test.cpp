// Sources of any format and orientation: what is delivered as stored decodes to what is delivered decoded, whatever rows
// are asked for; columns of chunks are decompressed once; identity; files that change. Files of h5py and numpy are read in
// read_other_files.py.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "kernels/decode_host.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/file_source.h"
#include "src/hdf5_file.h"
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

/// All rows in chunks, from another place on every rank; single rows; none.
bool gives_all(RowSource& source, const Communicator& comm) {
  const std::int64_t m = source.shape().m, begin = m * comm.rank() / comm.size();
  bool right = gives(source, {m - 1, m}) && gives(source, {begin, begin});
  for (std::int64_t row = begin; row < m; row += 701) right = right && gives(source, {row, std::min(m, row + 701)});
  return right;
}

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

TEST_CASE("A chunk that two reads share is decompressed once, by rows and by columns") {
  const Communicator comm(MPI_COMM_WORLD);
  const Files files(comm);
  constexpr int kFilter = 300;  // of the range for tests
  register_counting_filter(kFilter);
  for (const bool transposed : {false, true}) {
    const Storage storage =
        transposed ? Storage{H5T_IEEE_F32LE, true, {3, 64}, kFilter} : Storage{H5T_IEEE_F32LE, false, {64, 3}, kFilter};
    const auto source = open_file_source(options_of({files.add("counted.h5", 0, 2003, 7, storage)}, transposed), comm);
    decoded_chunks = 0;
    bool right = true;
    for (std::int64_t row = 0; row < 2003; row += 50)
      right = right && gives(*source, {row, std::min<std::int64_t>(2003, row + 50)});
    INFO(decoded_chunks << " chunks");
    MPI_REQUIRE(right);
    MPI_REQUIRE(decoded_chunks == 32 * 3);  // gives reads twice, and still
  }
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
  comm.barrier();
  if (comm.is_root()) {
    std::filesystem::last_write_time(files.at("two.h5"),
                                     std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
  }
  comm.barrier();
  MPI_REQUIRE(identity_of(options_of({files.at("two.h5")}, false)) != first);
}
