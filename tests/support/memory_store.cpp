#include "tests/support/memory_store.hpp"

#include <algorithm>

#include "rendezvous/base/error.hpp"

namespace ddprun {

void MemoryStore::set(std::string_view key, std::string_view value) {
    const std::lock_guard lock(data_->mutex);
    data_->values.insert_or_assign(std::string(key), std::string(value));
    data_->changed.notify_all();
}

std::string MemoryStore::get(std::string_view key, Milliseconds timeout) {
    wait({std::string(key)}, timeout);
    const std::lock_guard lock(data_->mutex);
    return data_->values.find(key)->second;
}

std::int64_t MemoryStore::add(std::string_view key, std::int64_t delta) {
    const std::lock_guard lock(data_->mutex);
    std::string& value = data_->values[std::string(key)];
    const std::int64_t sum = (value.empty() ? 0 : std::stoll(value)) + delta;
    value = std::to_string(sum);
    data_->changed.notify_all();
    return sum;
}

std::string MemoryStore::compare_set(std::string_view key, std::string_view expected,
                                     std::string_view desired) {
    const std::lock_guard lock(data_->mutex);
    const auto found = data_->values.find(key);
    if (found == data_->values.end() && !expected.empty()) return std::string(expected);
    if (found != data_->values.end() && found->second != expected) return found->second;
    data_->values.insert_or_assign(std::string(key), std::string(desired));
    data_->changed.notify_all();
    return std::string(desired);
}

void MemoryStore::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
    std::unique_lock lock(data_->mutex);
    if (!data_->changed.wait_for(lock, timeout, [&] { return has_all(keys); })) {
        fail(Errc::timed_out, "waiting for " + keys.front() + " in the memory store");
    }
}

bool MemoryStore::check_keys(const std::vector<std::string>& keys) {
    const std::lock_guard lock(data_->mutex);
    return has_all(keys);
}

bool MemoryStore::erase(std::string_view key) {
    const std::lock_guard lock(data_->mutex);
    const auto found = data_->values.find(key);
    if (found == data_->values.end()) return false;
    data_->values.erase(found);
    return true;
}

bool MemoryStore::has_all(const std::vector<std::string>& keys) const {
    return std::all_of(keys.begin(), keys.end(),
                       [&](const auto& key) { return data_->values.contains(key); });
}

}  // namespace ddprun
