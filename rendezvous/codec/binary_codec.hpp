// BinaryWriter writes described structs as bytes, and BinaryReader reads them, between processes of one build
// on machines of one byte order. Pure.
//
//     struct = its members in the order of the description        text, list, map = count + items
//     variant = index of the alternative + the alternative
//
// A number, an enumeration and a count are as wide as the format says: WideNumbers or PlainNumbers. A type
// that is encoded otherwise has a BinaryForm. Reading takes no more memory than a few times the bytes.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/codec/description.hpp"

namespace ddprun {
inline namespace base {

// BinaryForm is specialised for a type that is encoded as another one. `static auto out(const T&)` returns
// that form; `static bool in(Form, T&)` reads it, and returns false for a form that is never sent.
template <class T>
struct BinaryForm {};

template <class T>
concept HasBinaryForm = requires(const T& value) {
    BinaryForm<T>::out(value);
};

// WideNumbers: every number takes eight bytes.
struct WideNumbers {
    template <class T>
    using On = std::int64_t;
};

// PlainNumbers: every number is as wide as its type.
struct PlainNumbers {
    template <class T>
    using On = typename std::conditional_t<
        std::is_same_v<T, bool>, std::type_identity<std::uint8_t>,
        std::conditional_t<std::is_enum_v<T>, std::underlying_type<T>, std::type_identity<T>>>::type;
};

template <class Numbers>
class BinaryWriter {
  public:
    template <class T>
    requires std::integral<T> || std::is_enum_v<T>
    void operator()(const T& value) {
        // NOLINTNEXTLINE(bugprone-signed-char-misuse): a char comes back as the char it was.
        const auto number = static_cast<typename Numbers::template On<T>>(value);
        bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    void operator()(const std::chrono::milliseconds& duration) { (*this)(duration.count()); }
    void operator()(const std::string& text) {
        (*this)(text.size());
        bytes_ += text;
    }
    template <class T>
    void operator()(const std::vector<T>& items) {
        (*this)(items.size());
        for (const T& item : items) (*this)(item);
    }
    template <class K, class V>
    void operator()(const std::map<K, V>& items) {
        (*this)(items.size());
        for (const auto& [key, value] : items) (*this)(key), (*this)(value);
    }
    template <class... T>
    requires(!HasBinaryForm<std::variant<T...>>) void operator()(const std::variant<T...>& value) {
        (*this)(value.index());
        std::visit([this](const auto& alternative) { (*this)(alternative); }, value);
    }
    template <HasBinaryForm T>
    void operator()(const T& value) {
        (*this)(BinaryForm<T>::out(value));
    }
    template <Described T>
    void operator()(const T& value) {
        visit_members<T>([&](auto member) { (*this)(value.*member.pointer); });
    }

    std::string take() { return std::move(bytes_); }

  private:
    std::string bytes_;
};

// BinaryReader fails for good at bytes that do not fit.
template <class Numbers>
class BinaryReader {
  public:
    explicit BinaryReader(std::string_view bytes) : rest_(bytes) {}

    template <class T>
    requires std::integral<T> || std::is_enum_v<T>
    void operator()(T& value) {
        using Number = typename Numbers::template On<T>;
        Number number{};
        if (!has(sizeof number)) return;
        std::memcpy(&number, rest_.data(), sizeof number);
        rest_.remove_prefix(sizeof number);
        value = static_cast<T>(number);
        require(static_cast<Number>(value) == number);
        if constexpr (DescribedEnum<T>) {
            require(is_value(value));
        } else if constexpr (std::is_enum_v<T>) {
            require(is_known(value));
        }
    }
    void operator()(std::chrono::milliseconds& duration) {
        std::chrono::milliseconds::rep count = 0;
        (*this)(count);
        duration = std::chrono::milliseconds(count);
    }
    void operator()(std::string& text) {
        std::size_t size = 0;
        (*this)(size);
        if (!has(size)) return;
        text = rest_.substr(0, size);
        rest_.remove_prefix(size);
    }
    template <class T>
    void operator()(std::vector<T>& list) {
        for (auto count = items(); count > 0 && !failed_; --count) (*this)(list.emplace_back());
    }
    template <class K, class V>
    void operator()(std::map<K, V>& list) {
        for (auto count = items(); count > 0 && !failed_; --count) {
            std::pair<K, V> item;
            (*this)(item.first), (*this)(item.second);
            list.insert(list.end(), std::move(item));
        }
    }
    template <class... T>
    requires(!HasBinaryForm<std::variant<T...>>) void operator()(std::variant<T...>& value) {
        std::size_t place = 0;
        (*this)(place);
        require(place < sizeof...(T));
        boost::mp11::mp_for_each<boost::mp11::mp_iota_c<sizeof...(T)>>([&](auto index) {
            if (!failed_ && index == place) (*this)(value.template emplace<index>());
        });
    }
    template <HasBinaryForm T>
    void operator()(T& value) {
        auto form = BinaryForm<T>::out(value);
        (*this)(form);
        require(BinaryForm<T>::in(form, value));
    }
    template <Described T>
    void operator()(T& value) {
        visit_members<T>([&](auto member) { (*this)(value.*member.pointer); });
    }

    std::string_view rest() const { return rest_; }
    bool failed() const { return failed_; }
    bool complete() const { return !failed_ && rest_.empty(); }

  private:
    void require(bool good) { failed_ = failed_ || !good; }
    bool has(std::size_t size) {
        require(size <= rest_.size());
        return !failed_;
    }
    // Returns the count of items. Every item has at least one number.
    std::size_t items() {
        std::size_t count = 0;
        (*this)(count);
        require(count <= rest_.size() / sizeof(typename Numbers::template On<char>));
        return failed_ ? 0 : count;
    }

    std::string_view rest_;
    bool failed_ = false;
};

// Reads one value that takes all the bytes; false if they are none, and `value` holds anything.
template <class Numbers, class T>
bool from_bytes(std::string_view bytes, T& value) {
    BinaryReader<Numbers> read(bytes);
    read(value);
    return read.complete();
}

template <class Numbers, class T>
std::string to_bytes(const T& value) {
    BinaryWriter<Numbers> write;
    write(value);
    return write.take();
}

}  // namespace base
}  // namespace ddprun
