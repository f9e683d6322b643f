// Described structs full of anything that they may hold: what a round trip must bring back.
#pragma once

#include <chrono>
#include <concepts>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/codec/description.hpp"

namespace ddprun {

class RandomValues {
  public:
    // Texts of any bytes, or such as stay what they are in JSON files: printable. `numbers`: the format's
    // range of those that have none of their own.
    explicit RandomValues(unsigned seed, bool any_bytes = true, NumberRange numbers = kNoOwnRange)
        : random_(seed), any_bytes_(any_bytes), numbers_(numbers) {}

    std::size_t below(std::size_t end) {
        return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
    }

    void operator()(bool& value) { value = below(2) == 1; }
    template <std::integral T>
    void operator()(T& value) {
        constexpr T kEdges[] = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 0, 1};
        value = below(2) == 0 ? kEdges[below(std::size(kEdges))] : static_cast<T>(random_());
    }
    template <DescribedEnum T>
    void operator()(T& value) {
        using All = boost::describe::describe_enumerators<T>;
        const std::size_t place = below(boost::mp11::mp_size<All>::value);
        std::size_t at = 0;
        boost::mp11::mp_for_each<All>([&](auto one) {
            if (at++ == place) value = one.value;
        });
    }
    void operator()(std::chrono::milliseconds& value) { value = std::chrono::milliseconds(below(1'000'000)); }
    void operator()(std::string& text) {
        text.resize(below(12));
        for (char& byte : text) byte = static_cast<char>(any_bytes_ ? below(256) : ' ' + below(95));
    }
    template <class T>
    void operator()(std::optional<T>& value) {
        value.reset();
        if (below(2) == 1) (*this)(value.emplace());
    }
    template <class T>
    void operator()(std::vector<T>& list) {
        list.resize(below(4));
        for (T& item : list) (*this)(item);
    }
    void operator()(std::map<std::string, std::string>& map) {
        map.clear();
        for (std::size_t i = below(4); i > 0; --i) (*this)(map[std::to_string(i)]);
    }
    template <class... T>
    void operator()(std::variant<T...>& value) {
        const std::size_t place = below(sizeof...(T));
        boost::mp11::mp_for_each<boost::mp11::mp_iota_c<sizeof...(T)>>([&](auto index) {
            if (index == place) (*this)(value.template emplace<index>());
        });
    }
    template <Described T>
    void operator()(T& value) {
        for (bool sound = false; !sound;) {
            visit_members<T>([&](auto member) {
                (*this)(value.*member.pointer);
                const NumberRange own = range_of(Of<member.pointer>{});
                bring_within(value.*member.pointer, own == kNoOwnRange ? numbers_ : own);
            });
            if constexpr (requires { is_sound(value); }) {
                sound = is_sound(value);
            } else {
                sound = true;
            }
        }
    }

    template <class T>
    T make() {
        T value;
        (*this)(value);
        return value;
    }

  private:
    template <class T>
    void bring_within(T&, const NumberRange&) {}
    template <std::signed_integral T>
    void bring_within(T& number, const NumberRange& range) {
        if (number < range.least) number = static_cast<T>(range.least);
        if (number <= range.most) return;
        const auto count = static_cast<std::size_t>(range.most - range.least) + 1;
        number = static_cast<T>(below(2) == 0 ? range.most
                                              : range.least + static_cast<std::int64_t>(below(count)));
    }
    template <class T>
    void bring_within(std::optional<T>& value, const NumberRange& range) {
        if (value) bring_within(*value, range);
    }
    template <class T>
    void bring_within(std::vector<T>& list, const NumberRange& range) {
        for (T& item : list) bring_within(item, range);
    }

    std::mt19937_64 random_;
    bool any_bytes_;
    NumberRange numbers_;
};

}  // namespace ddprun
