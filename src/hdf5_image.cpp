#include "src/hdf5_image.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "src/error.h"
#include "src/text.h"

namespace tallsketch {

hid_t checked_output(hid_t id, const char* call) {
  check_h5(id, ErrorKind::kOutput, call);
  return id;
}

namespace {

Hdf5Handle text_type(const std::string& text) {
  Hdf5Handle type(checked_output(H5Tcopy(H5T_C_S1), "H5Tcopy"), H5Tclose);
  checked_output(H5Tset_size(type.get(), std::max<std::size_t>(1, text.size())), "H5Tset_size");
  checked_output(H5Tset_cset(type.get(), H5T_CSET_UTF8), "H5Tset_cset");
  return type;
}

[[noreturn]] void fail_to_read(const Hdf5File& file, const std::string& name) {
  throw Error(ErrorKind::kInput, fmt::format("cannot read {} of '{}': {}", name, file.path(), hdf5_error_text()));
}

/// Room for a text of this type, which must be of fixed length and fit into the file.
std::string room_for(const Hdf5File& file, const std::string& name, hid_t type) {
  require(H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0, ErrorKind::kInput,
          fmt::format("{} of '{}' is not text as tallsketch writes it", name, file.path()));
  const std::size_t bytes = H5Tget_size(type);
  require(static_cast<std::int64_t>(bytes) <= file.input().bytes(), ErrorKind::kInput,
          fmt::format("{} of '{}' claims {} bytes, more than the file has: it is corrupt", name, file.path(), bytes));
  return std::string(bytes, '\0');
}

void require_scalar(const Hdf5File& file, const std::string& name, hid_t space) {
  require(H5Sget_simple_extent_type(space) == H5S_SCALAR, ErrorKind::kInput,
          fmt::format("{} of '{}' is not one text", name, file.path()));
}

}  // namespace

void write_hdf5_text(hid_t object, const char* name, const std::string& text) {
  const Hdf5Handle type = text_type(text);
  const Hdf5Handle space(checked_output(H5Screate(H5S_SCALAR), "H5Screate"), H5Sclose);
  const Hdf5Handle attribute(
      checked_output(H5Acreate2(object, name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT), "H5Acreate2"),
      H5Aclose);
  checked_output(H5Awrite(attribute.get(), type.get(), text.data()), "H5Awrite");
}

Hdf5Image::Hdf5Image() {
  initialise_hdf5();
  const Hdf5Handle access(checked_output(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"), H5Pclose);
  checked_output(H5Pset_fapl_core(access.get(), std::size_t{1} << 16, 0), "H5Pset_fapl_core");
  file_ =
      Hdf5Handle(checked_output(H5Fcreate("image", H5F_ACC_TRUNC, H5P_DEFAULT, access.get()), "H5Fcreate"), H5Fclose);
}

void Hdf5Image::add(const char* name, const std::vector<double>& values, std::int64_t rows, std::int64_t cols, int rank,
                    ElementType stored) {
  const std::array<hsize_t, 2> dims = {static_cast<hsize_t>(rows), static_cast<hsize_t>(cols)};
  const Hdf5Handle space(checked_output(H5Screate_simple(rank, dims.data(), nullptr), "H5Screate_simple"), H5Sclose);
  const hid_t type = stored == ElementType::kFloat64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
  const Hdf5Handle dataset(
      checked_output(H5Dcreate2(file_.get(), name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                     "H5Dcreate2"),
      H5Dclose);
  checked_output(H5Dwrite(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), "H5Dwrite");
}

void Hdf5Image::add_text(const char* name, const std::string& text) {
  const Hdf5Handle type = text_type(text);
  const Hdf5Handle space(checked_output(H5Screate(H5S_SCALAR), "H5Screate"), H5Sclose);
  const Hdf5Handle dataset(
      checked_output(H5Dcreate2(file_.get(), name, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                     "H5Dcreate2"),
      H5Dclose);
  checked_output(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), "H5Dwrite");
}

void Hdf5Image::add_attribute(const char* dataset, const char* name, const std::string& text) {
  const Hdf5Handle object(checked_output(H5Dopen2(file_.get(), dataset, H5P_DEFAULT), "H5Dopen2"), H5Dclose);
  write_hdf5_text(object.get(), name, text);
}

std::vector<std::byte> Hdf5Image::bytes() const {
  checked_output(H5Fflush(file_.get(), H5F_SCOPE_LOCAL), "H5Fflush");
  const ssize_t size = H5Fget_file_image(file_.get(), nullptr, 0);
  checked_output(size < 0 ? -1 : 0, "H5Fget_file_image");
  std::vector<std::byte> image(static_cast<std::size_t>(size));
  checked_output(H5Fget_file_image(file_.get(), image.data(), image.size()) < 0 ? -1 : 0, "H5Fget_file_image");
  return image;
}

std::string hdf5_text(const Hdf5File& file, const std::string& name) {
  const Hdf5Handle dataset(H5Dopen2(file.handle(), name.c_str(), H5P_DEFAULT), H5Dclose);
  if (dataset.get() < 0) fail_to_read(file, name);
  const Hdf5Handle type(H5Dget_type(dataset.get()), H5Tclose), space(H5Dget_space(dataset.get()), H5Sclose);
  require_scalar(file, name, space.get());
  std::string text = room_for(file, name, type.get());
  if (H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0) fail_to_read(file, name);
  return text;
}

std::string hdf5_text_attribute(const Hdf5File& file, const std::string& dataset, const std::string& name) {
  const Hdf5Handle attribute(H5Aopen_by_name(file.handle(), dataset.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
                             H5Aclose);
  if (attribute.get() < 0) fail_to_read(file, dataset + " attribute " + name);
  const Hdf5Handle type(H5Aget_type(attribute.get()), H5Tclose), space(H5Aget_space(attribute.get()), H5Sclose);
  require_scalar(file, name, space.get());
  std::string text = room_for(file, name, type.get());
  if (H5Aread(attribute.get(), type.get(), text.data()) < 0) fail_to_read(file, dataset + " attribute " + name);
  return text;
}

std::vector<double> hdf5_values(const Hdf5File& file, const std::string& name, std::int64_t rows, std::int64_t cols,
                                ElementType stored) {
  const Hdf5Handle dataset(H5Dopen2(file.handle(), name.c_str(), H5P_DEFAULT), H5Dclose);
  if (dataset.get() < 0) fail_to_read(file, name);
  const Hdf5Handle space(H5Dget_space(dataset.get()), H5Sclose), type(H5Dget_type(dataset.get()), H5Tclose);
  const Hdf5Handle creation(H5Dget_create_plist(dataset.get()), H5Pclose);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  require(rank == 1 || rank == 2, ErrorKind::kInput,
          fmt::format("{} of '{}' has {} dimensions: the file is corrupt", name, file.path(), rank));
  std::array<hsize_t, 2> dims = {0, 1};
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  const bool as_written = dims == std::array<hsize_t, 2>{static_cast<hsize_t>(rows), static_cast<hsize_t>(cols)} &&
                          H5Tequal(type.get(), stored == ElementType::kFloat64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE) > 0 &&
                          H5Pget_layout(creation.get()) == H5D_CONTIGUOUS && H5Pget_external_count(creation.get()) == 0;
  require(as_written, ErrorKind::kInput,
          fmt::format("{} of '{}' is {} x {}; it should be {} x {} {}, contiguous: the file is corrupt, or not as "
                      "tallsketch wrote it",
                      name, file.path(), dims[0], dims[1], rows, cols, to_word(stored)));
  const std::int64_t most = file.input().bytes() / element_size(stored);
  require(cols <= most && rows <= most / cols, ErrorKind::kInput,
          fmt::format("{} of '{}' claims {} x {} elements, more than the file has: it is corrupt", name, file.path(),
                      rows, cols));
  std::vector<double> values(static_cast<std::size_t>(rows * cols));
  const herr_t status =  // floats are widened by HDF5, exactly
      H5Dread(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  if (status < 0) fail_to_read(file, name);
  return values;
}

}  // namespace tallsketch
