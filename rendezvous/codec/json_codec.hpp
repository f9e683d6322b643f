// json_of() writes described structs as JSON, and from_json() reads them. Pure.
//
// JsonRules has the defaults of a format: a struct derived from it redefines what differs. A text over its
// limit is cut when written, so that it can be read. Reading refuses longer texts, missing members, other
// types, numbers out of range (range_of) and structs that are not sound (is_sound). Unknown members are
// ignored; an empty optional is null.
#pragma once

#include <algorithm>
#include <boost/json.hpp>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace base {

// Returns the text as an object; nothing if it is none, is nested deeper, or is not valid UTF-8 (unless
// `any_bytes`).
std::optional<boost::json::object> parse_json_object(std::string_view text, std::size_t max_depth,
                                                     bool any_bytes = false);

// Cuts the text to the limit in bytes, but not in the middle of a UTF-8 character.
std::string cut_text(const std::string& text, std::size_t limit);

// json_of() returns the value as JSON; `limit` is its member's.
template <class Rules, std::size_t limit = kNoOwnLimit, class T>
boost::json::value json_of(const T& value);
template <class Rules, std::size_t limit = kNoOwnLimit, class T>
bool from_json(const boost::json::value& from, T& value);

// JsonRules are a format's defaults. Where a format has `put(out, name, value)` for a member's type, that
// writes the member into the object; `take(in, name, value)` reads it.
struct JsonRules {
    static constexpr std::size_t kMaxText = kNoOwnLimit;
    static constexpr std::size_t kMaxItemText = kNoOwnLimit;  // of a text in a list
    static constexpr std::size_t kMaxItems = kNoOwnLimit;     // of a list that has no limit of its own
    static constexpr NumberRange kNumbers = kNoOwnRange;  // of a signed number that has no range of its own

    static std::string text(const std::string& text, std::size_t limit) { return cut_text(text, limit); }
};

// Appends the members to the object, in the order of the description.
template <class Rules, Described T>
void put_members(boost::json::object& out, const T& whole) {
    visit_members<T>([&](auto member) {
        const auto& value = whole.*member.pointer;
        if constexpr (requires { Rules::put(out, member.name, value); }) {
            Rules::put(out, member.name, value);
        } else {
            out[member.name] = json_of<Rules, limit_of(Of<member.pointer>{})>(value);
        }
    });
}

template <class Rules, std::size_t limit = kNoOwnLimit, class T>
bool take_member(const boost::json::object& in, std::string_view name, T& value) {
    const boost::json::value* member = in.if_contains(name);
    return member != nullptr && from_json<Rules, limit>(*member, value);
}

template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsList = false;
template <class T>
inline constexpr bool kIsList<std::vector<T>> = true;

// Says whether all signed numbers in the value are in the range.
template <class T>
bool is_within(const T& value, const NumberRange& range) {
    if constexpr (std::signed_integral<T>) {
        return value >= range.least && value <= range.most;
    } else if constexpr (kIsOptional<T>) {
        return !value || is_within(*value, range);
    } else if constexpr (kIsList<T>) {
        return std::all_of(value.begin(), value.end(),
                           [&range](const auto& item) { return is_within(item, range); });
    } else {
        return true;
    }
}

template <class Rules>
constexpr NumberRange own_or_default(const NumberRange& own) {
    return own == kNoOwnRange ? Rules::kNumbers : own;
}

// Reads all members; false if one is missing or wrong, and `whole` holds anything.
template <class Rules, Described T>
bool take_members(const boost::json::object& in, T& whole) {
    bool good = true;
    visit_members<T>([&](auto member) {
        auto& value = whole.*member.pointer;
        if constexpr (requires { Rules::take(in, member.name, value); }) {
            good = good && Rules::take(in, member.name, value);
        } else {
            good = good && take_member<Rules, limit_of(Of<member.pointer>{})>(in, member.name, value);
        }
        good = good && is_within(value, own_or_default<Rules>(range_of(Of<member.pointer>{})));
    });
    if constexpr (requires { is_sound(whole); }) good = good && is_sound(whole);
    return good;
}

template <class Rules, std::size_t limit, class T>
boost::json::value json_of(const T& value) {
    if constexpr (std::same_as<T, std::string>) {
        return boost::json::string(Rules::text(value, limit == kNoOwnLimit ? Rules::kMaxText : limit));
    } else if constexpr (DescribedEnum<T>) {
        return boost::json::string(name_of_value(value));
    } else if constexpr (kIsOptional<T>) {
        return value ? json_of<Rules, limit>(*value) : boost::json::value(nullptr);
    } else if constexpr (kIsList<T>) {
        static_assert(limit != kNoOwnLimit || Rules::kMaxItems > 0, "this list needs a limit_of");
        check(value.size() <= (limit == kNoOwnLimit ? Rules::kMaxItems : limit), "a list over its limit");
        boost::json::array items;
        for (const auto& item : value) items.push_back(json_of<Rules, Rules::kMaxItemText>(item));
        return items;
    } else if constexpr (Described<T>) {
        boost::json::object members;
        put_members<Rules>(members, value);
        return members;
    } else {
        static_assert(std::integral<T>);
        return boost::json::value(value);
    }
}

template <std::integral T>
bool number_from_json(const boost::json::value& from, T& number) {
    // boost::json keeps a number as signed or unsigned, depending on its size.
    const auto convert = [&number](const auto* found) {
        if (found == nullptr || !std::in_range<T>(*found)) return false;
        number = static_cast<T>(*found);
        return true;
    };
    return convert(from.if_int64()) || convert(from.if_uint64());
}

template <class Rules, std::size_t limit, class T>
bool from_json(const boost::json::value& from, T& value) {
    if constexpr (std::same_as<T, std::string>) {
        const boost::json::string* found = from.if_string();
        if (found == nullptr || found->size() > (limit == kNoOwnLimit ? Rules::kMaxText : limit))
            return false;
        value.assign(found->data(), found->size());
        return true;
    } else if constexpr (DescribedEnum<T>) {
        const boost::json::string* found = from.if_string();
        const auto named = found != nullptr ? value_of_name<T>(*found) : std::nullopt;
        if (named) value = *named;
        return named.has_value();
    } else if constexpr (kIsOptional<T>) {
        value.reset();
        return from.is_null() || from_json<Rules, limit>(from, value.emplace());
    } else if constexpr (kIsList<T>) {
        const boost::json::array* found = from.if_array();
        if (found == nullptr || found->size() > (limit == kNoOwnLimit ? Rules::kMaxItems : limit))
            return false;
        value.resize(found->size());
        for (std::size_t i = 0; i < value.size(); ++i) {
            if (!from_json<Rules, Rules::kMaxItemText>((*found)[i], value[i])) return false;
        }
        return true;
    } else if constexpr (Described<T>) {
        const boost::json::object* found = from.if_object();
        return found != nullptr && take_members<Rules>(*found, value);
    } else if constexpr (std::same_as<T, bool>) {
        const bool* found = from.if_bool();
        if (found != nullptr) value = *found;
        return found != nullptr;
    } else {
        return number_from_json(from, value);
    }
}

}  // namespace base
}  // namespace ddprun
