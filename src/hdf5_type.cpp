#include "src/hdf5_type.h"

#include <optional>
#include <vector>

#include <strings.h>

#include <fmt/format.h>

#include "src/error.h"
#include "src/text.h"

namespace tallsketch {

namespace {

std::string type_words(hid_t type) {
  const std::size_t bits = 8 * H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: return fmt::format("an integer of {} bits in {}", H5Tget_precision(type), bits);
    case H5T_FLOAT: return fmt::format("a {}-bit float that is not IEEE", bits);
    case H5T_STRING: return "text";
    case H5T_COMPOUND: return "compound (complex numbers are stored so)";
    case H5T_ENUM: return "an enumeration that is not false and true";
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

std::optional<StoredType> float_type(hid_t type) {
  switch (H5Tget_size(type)) {
    case 8: return is_ieee(type, 11, 52) ? std::optional(StoredType::kFloat64) : std::nullopt;
    case 4: return is_ieee(type, 8, 23) ? std::optional(StoredType::kFloat32) : std::nullopt;
    case 2:
      if (is_ieee(type, 5, 10)) return StoredType::kFloat16;
      return is_ieee(type, 8, 7) ? std::optional(StoredType::kBfloat16) : std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<StoredType> integer_type(hid_t type) {
  const std::size_t size = H5Tget_size(type);
  if (H5Tget_precision(type) != 8 * size || H5Tget_offset(type) != 0) return std::nullopt;
  const bool has_sign = H5Tget_sign(type) != H5T_SGN_NONE;
  switch (size) {
    case 1: return has_sign ? StoredType::kInt8 : StoredType::kUint8;
    case 2: return has_sign ? StoredType::kInt16 : StoredType::kUint16;
    case 4: return has_sign ? StoredType::kInt32 : StoredType::kUint32;
    case 8: return has_sign ? StoredType::kInt64 : StoredType::kUint64;
    default: return std::nullopt;
  }
}

/// Whether a member of an enumeration is called the opposite of what its value means.
bool is_misnamed(hid_t type, unsigned member, unsigned char value) {
  char* const name = H5Tget_member_name(type, member);
  if (name == nullptr) return true;
  const bool misnamed = ::strcasecmp(name, value == 0 ? "true" : "false") == 0;
  H5free_memory(name);
  return misnamed;
}

/// The enumeration by which h5py stores booleans: one byte, 0 and 1.
bool is_boolean(hid_t type) {
  if (H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2) return false;
  unsigned char first = 2, second = 2;
  if (H5Tget_member_value(type, 0, &first) < 0 || H5Tget_member_value(type, 1, &second) < 0) return false;
  return first + second == 1 && !is_misnamed(type, 0, first) && !is_misnamed(type, 1, second);
}

std::optional<StoredType> stored_type(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_FLOAT: return float_type(type);
    case H5T_INTEGER: return integer_type(type);
    case H5T_ENUM: return is_boolean(type) ? std::optional(StoredType::kUint8) : std::nullopt;
    case H5T_BITFIELD: return H5Tget_size(type) == 1 ? std::optional(StoredType::kUint8) : std::nullopt;
    default: return std::nullopt;
  }
}

/// Empty where there is none, or no one text.
std::string text_attribute(const Hdf5Handle& object, const std::string& name) {
  if (H5Aexists(object.get(), name.c_str()) <= 0) return "";
  const Hdf5Handle attribute(H5Aopen(object.get(), name.c_str(), H5P_DEFAULT), H5Aclose);
  const Hdf5Handle type(H5Aget_type(attribute.get()), H5Tclose);
  const Hdf5Handle space(H5Aget_space(attribute.get()), H5Sclose);
  std::string text;
  if (H5Tget_class(type.get()) != H5T_STRING || H5Sget_simple_extent_npoints(space.get()) != 1) return "";
  if (H5Tis_variable_str(type.get()) > 0) {
    char* value = nullptr;
    if (H5Aread(attribute.get(), type.get(), &value) >= 0 && value != nullptr) {
      text = value;
      H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, &value);
    }
  } else {
    std::vector<char> value(H5Tget_size(type.get()) + 1, '\0');
    if (H5Aread(attribute.get(), type.get(), value.data()) >= 0) text = value.data();
  }
  H5Eclear2(H5E_DEFAULT);
  return text;
}

}  // namespace

Hdf5Type hdf5_type_of(const Hdf5Handle& dataset, const std::string& where) {
  const Hdf5Handle type(H5Dget_type(dataset.get()), H5Tclose);
  const std::optional<StoredType> found = stored_type(type.get());
  const std::string words = type_words(type.get());
  const bool big_endian = H5Tget_size(type.get()) > 1 && H5Tget_order(type.get()) == H5T_ORDER_BE;
  H5Eclear2(H5E_DEFAULT);  // questions that a type cannot answer
  require(
      found.has_value(), ErrorKind::kInput,
      fmt::format("{} is {}; float16, float32, float64, bfloat16, booleans and integers of 8 to 64 bits can be read "
                  "(convert it, for example with h5py's .astype('float32'))",
                  where, words));
  Hdf5Type result{*found, big_endian, ""};
  const bool words_of_16_bits = *found == StoredType::kUint16 || *found == StoredType::kInt16;
  const std::string said = text_attribute(dataset, "dtype");
  if (said == "bfloat16" && *found != StoredType::kBfloat16) {
    require(words_of_16_bits, ErrorKind::kInput,
            fmt::format("{} is {}, but its attribute dtype says bfloat16, which has 16 bits; remove one of them", where,
                        to_word(*found)));
    result.type = StoredType::kBfloat16;
  } else if (words_of_16_bits && H5Aexists(dataset.get(), "dtype") > 0) {
    // Whoever gives 16-bit integers a dtype means something else than integers, unless it says so.
    require(said == to_word(*found), ErrorKind::kInput,
            fmt::format("{} is {} with an attribute dtype that is {}; the text \"bfloat16\" is understood, and no "
                        "attribute means integers",
                        where, to_word(*found), said.empty() ? std::string("no text") : fmt::format("\"{}\"", said)));
  } else if (*found == StoredType::kUint16) {
    result.warning = fmt::format(
        "{} is uint16 and read as integers; if its words are bfloat16, give it the text attribute dtype = \"bfloat16\"",
        where);
  }
  return result;
}

}  // namespace tallsketch
