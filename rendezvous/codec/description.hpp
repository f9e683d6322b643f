// Described is a struct with its members listed beside it, each once, by BOOST_DESCRIBE_STRUCT; DescribedEnum
// has its names listed by BOOST_DESCRIBE_ENUM. The codecs (json_codec.hpp, binary_codec.hpp) and operator==
// are made from these lists. Pure.
#pragma once

#include <boost/describe.hpp>
#include <boost/mp11.hpp>
#include <boost/pfr/tuple_size.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "rendezvous/base/check.hpp"

namespace ddprun {
inline namespace base {

using boost::describe::operators::operator==;

template <class T>
concept Described = std::is_class_v<T> && boost::describe::has_describe_members<T>::value;

template <class T>
concept DescribedEnum = std::is_enum_v<T> && boost::describe::has_describe_enumerators<T>::value;

// Of names a member, for the limit given beside the struct, in bytes of a text or items of a list: `constexpr
// std::size_t limit_of(Of<&Failure::host>) { return kMaxHostText; }`. The default is the format's.
template <auto Member>
struct Of {};
inline constexpr std::size_t kNoOwnLimit = std::numeric_limits<std::size_t>::max();
template <auto Member>
constexpr std::size_t limit_of(Of<Member>) {
    return kNoOwnLimit;
}

// NumberRange says which numbers a member may have (each one of a list), both ends included. The struct has
// it beside it: `constexpr NumberRange range_of(Of<&Failure::exit_code>) { return kExitCodeRange; }`. What
// must hold between members is said by `bool is_sound(const T& whole)`.
struct NumberRange {
    std::int64_t least = std::numeric_limits<std::int64_t>::min();
    std::int64_t most = std::numeric_limits<std::int64_t>::max();
    bool operator==(const NumberRange&) const = default;
};
inline constexpr NumberRange kNoOwnRange{};
template <auto Member>
constexpr NumberRange range_of(Of<Member>) {
    return kNoOwnRange;
}

// Calls visit(D) for each member, in the order of the description: D::name, D::pointer. A struct with a
// member that its description lacks does not compile.
template <Described T, class Visitor>
constexpr void visit_members(Visitor&& visit) {
    using Members = boost::describe::describe_members<T, boost::describe::mod_public>;
    static_assert(boost::mp11::mp_size<Members>::value == boost::pfr::tuple_size_v<T>,
                  "the description lacks a member of the struct");
    boost::mp11::mp_for_each<Members>(visit);
}

template <DescribedEnum E>
std::string_view name_of_value(E value) {
    const char* name = boost::describe::enum_to_string(value, nullptr);
    check(name != nullptr, "a value that its enumeration does not have");
    return name;
}

template <DescribedEnum E>
std::optional<E> value_of_name(std::string_view name) {
    std::optional<E> found;
    boost::mp11::mp_for_each<boost::describe::describe_enumerators<E>>([&](auto enumerator) {
        if (enumerator.name == name) found = enumerator.value;
    });
    return found;
}

template <DescribedEnum E>
bool is_value(E value) {
    return boost::describe::enum_to_string(value, nullptr) != nullptr;
}

}  // namespace base
}  // namespace ddprun
