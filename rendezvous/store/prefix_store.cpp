#include "rendezvous/store/prefix_store.hpp"

namespace ddprun {

std::string PrefixStore::joined(std::string_view key) const {
    std::string whole;
    whole.reserve(prefix_.size() + key.size());
    return whole.append(prefix_).append(key);
}

std::vector<std::string> PrefixStore::joined(const std::vector<std::string>& keys) const {
    std::vector<std::string> whole;
    whole.reserve(keys.size());
    for (const std::string& key : keys) whole.push_back(joined(key));
    return whole;
}

void PrefixStore::set(std::string_view key, std::string_view value) { store_.set(joined(key), value); }

std::string PrefixStore::get(std::string_view key, Milliseconds timeout) {
    return store_.get(joined(key), timeout);
}

std::int64_t PrefixStore::add(std::string_view key, std::int64_t delta) {
    return store_.add(joined(key), delta);
}

std::string PrefixStore::compare_set(std::string_view key, std::string_view expected,
                                     std::string_view desired) {
    return store_.compare_set(joined(key), expected, desired);
}

void PrefixStore::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
    store_.wait(joined(keys), timeout);
}

bool PrefixStore::check_keys(const std::vector<std::string>& keys) { return store_.check_keys(joined(keys)); }

bool PrefixStore::erase(std::string_view key) { return store_.erase(joined(key)); }

}  // namespace ddprun
