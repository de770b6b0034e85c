#include "src/hdf5_source.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "kernels/half.h"
#include "src/communicator.h"
#include "src/error.h"
#include "src/hdf5_file.h"

namespace tallsketch {

namespace {

/// One file's rows, at their place in the whole matrix.
struct Shard {
  Hdf5Dataset data;
  std::int64_t first_row = 0;
};

std::string shape_text(const Hdf5Dataset& d) {
  return d.rank() == 1 ? fmt::format("({})", d.rows()) : fmt::format("({}, {})", d.rows(), d.cols());
}

/// A file of that very name comes before the reading as FILE:/name.
DatasetName find_dataset_name(const std::string& text) {
  if (std::filesystem::exists(text)) return {text, ""};
  return parse_dataset_name(text);
}

class Hdf5Source final : public RowSource {
 public:
  Hdf5Source(const InputOptions& options, const Communicator& comm) {
    for (const std::string& text : options.files) {
      const DatasetName a = find_dataset_name(text);
      files_.push_back(Hdf5File::open(a.file, &comm));
      info_.files.push_back(a.file);
      comm.together([&] { append(a_, files_.back().dataset(a.dataset.empty() ? options.a : a.dataset)); });
    }
    const DatasetName b = parse_dataset_name(options.b);
    info_.b_name = options.b;
    if (b.dataset.empty()) {  // "/b" beside A in every file
      for (std::size_t i = 0; i < options.files.size(); ++i) {
        comm.together([&] { append(b_, files_[i].dataset(options.b)); });
      }
    } else {
      files_.push_back(Hdf5File::open(b.file, &comm));
      comm.together([&] { append(b_, files_.back().dataset(b.dataset)); });
    }
    comm.together([&] { check_shapes(options); });
  }

  const ProblemShape& shape() const override { return shape_; }
  const SourceInfo& info() const override { return info_; }

  void read(RowRange rows, void* a, double* b) override {
    const std::int64_t a_row_bytes = shape_.n * element_size(shape_.a_type);
    for_each_part(a_, rows, [&](const Hdf5Dataset& data, RowRange local, std::int64_t offset) {
      data.read(local, static_cast<char*>(a) + offset * a_row_bytes);
    });
    for_each_part(b_, rows, [&](const Hdf5Dataset& data, RowRange local, std::int64_t offset) {
      read_as_double(data, local, b + offset * shape_.r);
    });
  }

  std::string identity() const override {
    std::string text = fmt::format("{} and {} of", info_.a_name, info_.b_name);
    for (const Hdf5File& file : files_) text += fmt::format(" {}", file.identity());
    return text;
  }

  void check_unchanged() const override {
    for (const Hdf5File& file : files_) file.check_unchanged();
  }

 private:
  static void append(std::vector<Shard>& shards, Hdf5Dataset data) {
    const std::int64_t first = shards.empty() ? 0 : shards.back().first_row + shards.back().data.rows();
    shards.push_back({std::move(data), first});
  }

  static std::int64_t rows_of(const std::vector<Shard>& shards) {
    return shards.back().first_row + shards.back().data.rows();
  }

  /// Calls f(dataset, rows inside it, offset from rows.begin) for every shard that holds some of the rows.
  template <class F>
  static void for_each_part(const std::vector<Shard>& shards, RowRange rows, F&& f) {
    for (const Shard& shard : shards) {
      const std::int64_t begin = std::max(rows.begin, shard.first_row);
      const std::int64_t end = std::min(rows.end, shard.first_row + shard.data.rows());
      if (begin < end) f(shard.data, RowRange{begin - shard.first_row, end - shard.first_row}, begin - rows.begin);
    }
  }

  void read_as_double(const Hdf5Dataset& data, RowRange rows, double* out) {
    const auto count = static_cast<std::size_t>(rows.size() * data.cols());
    if (data.type() == ElementType::kFloat64) {
      data.read(rows, out);
      return;
    }
    raw_.resize(count * static_cast<std::size_t>(element_size(data.type())));
    data.read(rows, raw_.data());
    if (data.type() == ElementType::kFloat32) {
      const auto* values = reinterpret_cast<const float*>(raw_.data());
      std::copy(values, values + count, out);
    } else {
      const auto* values = reinterpret_cast<const std::uint16_t*>(raw_.data());
      std::transform(values, values + count, out, [](std::uint16_t h) { return double{half_to_float(h)}; });
    }
  }

  void check_shapes(const InputOptions& options) {
    const Hdf5Dataset& a = a_.front().data;
    const Hdf5Dataset& b = b_.front().data;
    for (const Shard& shard : a_) {
      require(shard.data.cols() == a.cols() && shard.data.type() == a.type(), ErrorKind::kInput,
              fmt::format("row shards differ: {} of '{}' is {} {}, {} of '{}' is {} {}", a.name(), a.path(),
                          a.type_text(), shape_text(a), shard.data.name(), shard.data.path(), shard.data.type_text(),
                          shape_text(shard.data)));
    }
    for (const Shard& shard : b_) {
      require(shard.data.cols() == b.cols(), ErrorKind::kInput,
              fmt::format("row shards differ: {} of '{}' is {}, {} of '{}' is {}", b.name(), b.path(), shape_text(b),
                          shard.data.name(), shard.data.path(), shape_text(shard.data)));
    }
    shape_ = {rows_of(a_), a.cols(), b.cols(), a.type()};
    require(shape_.m > 0, ErrorKind::kInput,
            fmt::format("{} of '{}' has no rows: {}", a.name(), a.path(), shape_text(a)));
    require(shape_.n > 0, ErrorKind::kInput,
            fmt::format("{} of '{}' has no columns: {}", a.name(), a.path(), shape_text(a)));
    require(
        rows_of(b_) == shape_.m, ErrorKind::kInput,
        fmt::format("A has {} rows ({} of '{}') but b has {} ({} of '{}'): one entry of b a row of A is needed{}",
                    shape_.m, a.name(), a.path(), rows_of(b_), b.name(), b.path(),
                    rows_of(b_) == shape_.n ? "; A's columns match b, so A seems to be stored transposed: store A.T "
                                              "as (m, n), this version does not transpose"
                                            : ""));
    require(shape_.r > 0, ErrorKind::kInput, fmt::format("{} of '{}' has no columns", b.name(), b.path()));
    require(
        shape_.m >= shape_.n || options.may_be_wide, ErrorKind::kUsage,
        fmt::format("A is wide: m = {} rows, n = {} columns; tallsketch solves m >= n. If the file holds A transposed "
                    "(MATLAB, Julia and Fortran do), store it as (n, m): this version does not transpose",
                    shape_.m, shape_.n));
    info_.a_name = a.name();
    info_.dtype = a.type_text();
    info_.layout = a.layout();
    info_.io_mode = files_.front().parallel() ? "mpio independent" : "serial, each rank its own rows";
    for (const auto* shards : {&a_, &b_}) {
      for (const Shard& shard : *shards) {
        if (shard.data.missing_chunks() == 0) continue;
        info_.warnings.push_back(
            fmt::format("{} chunks of dataset {} of '{}' were never written and read as its fill value (usually 0)",
                        shard.data.missing_chunks(), shard.data.name(), shard.data.path()));
      }
    }
    if (shape_.m < shape_.n) {
      info_.warnings.push_back(fmt::format(
          "A is wide here (m = {} rows, n = {} columns): good for some rows of a larger matrix, wrong where the "
          "file holds A transposed",
          shape_.m, shape_.n));
    }
    if (shape_.m == shape_.n) {
      info_.warnings.push_back(
          fmt::format("A is square ({} x {}): read row by row as stored (C order)", shape_.m, shape_.n));
    }
  }

  ProblemShape shape_;
  SourceInfo info_;
  std::vector<Hdf5File> files_;
  std::vector<Shard> a_, b_;
  std::vector<char> raw_;
};

}  // namespace

std::unique_ptr<RowSource> open_hdf5_source(const InputOptions& options, const Communicator& comm) {
  return std::make_unique<Hdf5Source>(options, comm);
}

}  // namespace tallsketch
