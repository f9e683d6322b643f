// Described structs full of anything: what a round trip must bring back.
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

#include "rendezvous/job/description.hpp"

namespace ddprun {

class RandomValues {
  public:
    // Texts of any bytes, or such as stay what they are in JSON files: printable.
    explicit RandomValues(unsigned seed, bool any_bytes = true) : random_(seed), any_bytes_(any_bytes) {}

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
        visit_members<T>([&](auto member) { (*this)(value.*member.pointer); });
    }

    template <class T>
    T make() {
        T value;
        (*this)(value);
        return value;
    }

  private:
    std::mt19937_64 random_;
    bool any_bytes_;
};

}  // namespace ddprun
