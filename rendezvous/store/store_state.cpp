#include "rendezvous/store/store_state.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.hpp"
#include "rendezvous/text/number_text.hpp"

namespace ddprun {
inline namespace base {
namespace {

constexpr std::string_view kReplyTooLong = "the reply would be too long";
constexpr std::string_view kNotANumber = "add to a value that is no number";

// A map node with two string objects, or a queue's item, takes so much, in round numbers.
constexpr std::size_t kEntryOverhead = 128;
// So much of a key is shown to a person.
constexpr std::size_t kShownKey = 64;
// A string that lost this much of its value gives the memory back.
constexpr std::size_t kKeptSlack = 4096;

std::size_t entry_bytes(std::string_view key, std::string_view value) {
    return key.size() + value.size() + kEntryOverhead;
}

}  // namespace

std::string StoreState::description() const {
    const auto size = [](const auto& entry) { return entry_bytes(entry.first, entry.second->text); };
    const auto mib = [](std::size_t bytes) { return bytes >> 20; };
    std::string text =
        fmt::format("{} keys, {} MiB of at most {} MiB", keys_.size(), mib(bytes()), mib(max_bytes_));
    const auto largest =
        std::max_element(keys_.begin(), keys_.end(),
                         [&](const auto& one, const auto& other) { return size(one) < size(other); });
    if (largest == keys_.end()) return text;
    // A key may hold any bytes, so it is escaped.
    return fmt::format("{}, the largest {:?} with {} MiB", text, largest->first.substr(0, kShownKey),
                       mib(size(*largest)));
}

Refusal StoreState::apply(ConnectionId connection, const Request& request, Outboxes& out) {
    const auto box = [&]() -> Outbox& { return out.outbox(connection); };
    const auto reply = [&]() -> std::string& { return box().text(); };
    switch (request.opcode) {
        case Opcode::validate: return std::nullopt;
        case Opcode::ping: put_u32(reply(), static_cast<std::uint32_t>(request.number)); return std::nullopt;
        case Opcode::set: return store(request.key, request.value, out);
        case Opcode::compare_set: return compare_set(request, box(), out);
        case Opcode::get: put_value(request.key, box()); return std::nullopt;
        case Opcode::add: {
            std::int64_t sum = 0;
            const Refusal refusal = add(request.key, request.number, sum, out);
            if (!refusal) put_i64(reply(), sum);
            return refusal;
        }
        case Opcode::check: {
            const bool all = std::all_of(request.keys.begin(), request.keys.end(),
                                         [this](std::string_view key) { return exists(key); });
            reply().push_back(all ? kReadyReply : kNotReadyReply);
            return std::nullopt;
        }
        case Opcode::wait: return wait(connection, request, out);
        case Opcode::num_keys: put_i64(reply(), static_cast<std::int64_t>(keys_.size())); return std::nullopt;
        case Opcode::delete_key: put_i64(reply(), erase(request.key, out) ? 1 : 0); return std::nullopt;
        case Opcode::append: return append(request, out);
        case Opcode::multi_get: return multi_get(request, box());
        case Opcode::multi_set: return multi_set(request, out);
        case Opcode::cancel_wait:
            waits_.forget(connection);
            barriers_.forget(connection);
            reply().push_back(kWaitCancelledReply);
            return std::nullopt;
        case Opcode::queue_push: return queue_push(request, out);
        case Opcode::queue_pop: queue_pop(request.key, box()); return std::nullopt;
        case Opcode::queue_len: {
            auto found = queues_.find(request.key);
            put_u64(reply(), found == queues_.end() ? 0 : found->second.size());
            return std::nullopt;
        }
        case Opcode::list_keys: return list_keys(reply());
        case Opcode::barrier: return barrier(connection, request, out);
        case Opcode::watch_key: return watch(connection, request.key, reply());
    }
    check(false, "an opcode the store does not know");
    return std::nullopt;
}

void StoreState::remove(ConnectionId connection) {
    waits_.forget(connection);
    barriers_.forget(connection);
    auto watched = watched_by_.find(connection);
    if (watched == watched_by_.end()) return;
    for (const std::string& key : watched->second) {
        auto watchers = watches_.find(key);
        watchers->second.erase(connection);
        bytes_ -= 2 * entry_bytes(key, {});
        if (watchers->second.empty()) watches_.erase(watchers);
    }
    watched_by_.erase(watched);
}

void StoreState::clear() {
    for (auto& [key, value] : keys_) {
        bytes_ -= entry_bytes(key, value->text);
        drop(value);
    }
    for (auto& [key, items] : queues_) {
        for (auto& item : items) {
            bytes_ -= entry_bytes(key, item->text);
            drop(item);
        }
    }
    keys_.clear();
    queues_.clear();
}

Refusal StoreState::store(std::string_view key, std::string_view value, Outboxes& out) {
    auto found = keys_.find(key);
    const bool created = found == keys_.end();
    std::shared_ptr<StoredValue> old_value;
    if (created) {
        const std::size_t more = entry_bytes(key, value);
        if (!fits(more)) return kStoreFull;
        found = keys_.emplace(key, std::make_shared<StoredValue>(value)).first;
        bytes_ += more;
    } else {
        std::shared_ptr<StoredValue>& held = found->second;
        const std::size_t before = held->text.size();
        if (value.size() > before && !fits(value.size() - before)) return kStoreFull;
        const bool in_place =
            held.use_count() == 1 && watches_.empty() && held->text.capacity() <= value.size() + kKeptSlack;
        if (in_place) {
            held->text.assign(value);
        } else {
            old_value = std::exchange(held, std::make_shared<StoredValue>(value));
        }
        bytes_ += value.size();
        bytes_ -= before;
    }
    if (!waits_.empty()) {
        waits_.wake_all(key, woken_);
        answer_waiters(out);
    }
    if (!watches_.empty())
        tell_watchers(created ? kCreatedEvent : kUpdatedEvent, key, old_value, found->second, out);
    if (old_value) drop(old_value);
    return std::nullopt;
}

Refusal StoreState::compare_set(const Request& request, Outbox& reply, Outboxes& out) {
    if (value_or_empty(request.key) != request.value) {
        const auto found = keys_.find(request.key);
        found == keys_.end() ? put_string(reply.text(), request.value) : reply.put_value(found->second);
        return std::nullopt;
    }
    const Refusal refusal = store(request.key, request.desired, out);
    if (!refusal) put_value(request.key, reply);
    return refusal;
}

Refusal StoreState::add(std::string_view key, std::int64_t delta, std::int64_t& sum, Outboxes& out) {
    const auto found = keys_.find(key);
    const auto held =
        found == keys_.end() ? std::optional<std::int64_t>(0) : parse_number(found->second->text);
    if (!held) return kNotANumber;
    sum = wrapping_sum(*held, delta);
    return store(key, std::to_string(sum), out);
}

Refusal StoreState::append(const Request& request, Outboxes& out) {
    auto found = keys_.find(request.key);
    if (found == keys_.end()) return store(request.key, request.value, out);
    std::shared_ptr<StoredValue>& held = found->second;
    if (!fits(request.value.size())) return kStoreFull;
    if (held->text.size() + request.value.size() > kMaxValueLength)
        return Refusal("append makes the value too long");
    std::shared_ptr<StoredValue> old_value;
    if (held.use_count() > 1 || !watches_.empty()) {
        auto longer = std::make_shared<StoredValue>(std::string_view());
        longer->text.reserve(held->text.size() + request.value.size());
        longer->text.append(held->text);
        old_value = std::exchange(held, std::move(longer));
    }
    held->text.append(request.value);
    bytes_ += request.value.size();
    waits_.wake_all(request.key, woken_);
    answer_waiters(out);
    if (!watches_.empty()) tell_watchers(kUpdatedEvent, request.key, old_value, held, out);
    if (old_value) drop(old_value);
    return std::nullopt;
}

Refusal StoreState::multi_get(const Request& request, Outbox& reply) const {
    std::size_t total = reply.pending();
    for (std::string_view key : request.keys) total += sizeof(std::uint64_t) + value_or_empty(key).size();
    if (total > kMaxReplyLength) return kReplyTooLong;
    for (std::string_view key : request.keys) put_value(key, reply);
    return std::nullopt;
}

Refusal StoreState::multi_set(const Request& request, Outboxes& out) {
    std::size_t more = 0;
    for (std::size_t i = 0; i < request.keys.size(); ++i)
        more += entry_bytes(request.keys[i], request.values[i]);
    if (!fits(more)) return kStoreFull;
    for (std::size_t i = 0; i < request.keys.size(); ++i) {
        const Refusal refusal = store(request.keys[i], request.values[i], out);
        check(!refusal, "a set that was counted to fit did not");
    }
    return std::nullopt;
}

Refusal StoreState::wait(ConnectionId connection, const Request& request, Outboxes& out) {
    missing_.clear();
    std::size_t more = 0;
    for (std::string_view key : request.keys) {
        if (exists(key)) continue;
        missing_.push_back(key);
        more += WaitTable::slot_bytes(key);
    }
    if (missing_.empty()) {
        out.outbox(connection).text().push_back(kReadyReply);
        return std::nullopt;
    }
    if (!fits(more)) return kStoreFull;
    waits_.add(connection, missing_);
    return std::nullopt;
}

Refusal StoreState::barrier(ConnectionId connection, const Request& request, Outboxes& out) {
    if (!fits(entry_bytes(request.key, {}) + WaitTable::slot_bytes(request.key))) return kStoreFull;
    std::int64_t count = 0;
    const Refusal refusal = add(request.key, 1, count, out);
    if (refusal) return refusal;
    if (count < request.number) {
        barriers_.add(connection, {request.key});
        return std::nullopt;
    }
    out.outbox(connection).text().push_back(kReadyReply);
    barriers_.wake_all(request.key, woken_);
    answer_waiters(out);
    return std::nullopt;
}

Refusal StoreState::queue_push(const Request& request, Outboxes& out) {
    std::size_t more = entry_bytes(request.key, request.value);
    if (!fits(more)) return kStoreFull;
    auto found = queues_.find(request.key);
    if (found == queues_.end()) found = queues_.try_emplace(std::string(request.key)).first;
    found->second.push_back(std::make_shared<StoredValue>(request.value));
    bytes_ += more;
    waits_.wake_one(request.key, woken_);
    answer_waiters(out);
    return std::nullopt;
}

void StoreState::queue_pop(std::string_view key, Outbox& reply) {
    auto found = queues_.find(key);
    if (found == queues_.end()) return put_u64(reply.text(), 0);
    auto& items = found->second;
    put_u64(reply.text(), items.size());
    reply.put_value(items.front());
    bytes_ -= entry_bytes(key, items.front()->text);
    drop(items.front());
    items.pop_front();
    if (items.empty()) queues_.erase(found);
}

Refusal StoreState::list_keys(std::string& reply) const {
    std::size_t total = reply.size() + sizeof(std::uint64_t);
    for (const auto& entry : keys_) total += sizeof(std::uint64_t) + entry.first.size();
    if (total > kMaxReplyLength) return kReplyTooLong;
    put_u64(reply, keys_.size());
    for (const auto& entry : keys_) put_string(reply, entry.first);
    return std::nullopt;
}

Refusal StoreState::watch(ConnectionId connection, std::string_view key, std::string& reply) {
    std::size_t more = 2 * entry_bytes(key, {});
    if (!fits(more)) return kStoreFull;
    auto [watchers, is_new_key] = watches_.try_emplace(std::string(key));
    if (watchers->second.insert(connection).second) {
        watched_by_[connection].emplace_back(key);
        bytes_ += more;
    }
    reply.push_back(kWatchingReply);
    return std::nullopt;
}

bool StoreState::erase(std::string_view key, Outboxes& out) {
    auto found = keys_.find(key);
    if (found == keys_.end()) return false;
    bytes_ -= entry_bytes(key, found->second->text);
    if (!watches_.empty()) tell_watchers(kDeletedEvent, key, found->second, nullptr, out);
    drop(found->second);
    keys_.erase(found);
    return true;
}

bool StoreState::exists(std::string_view key) const {
    return keys_.contains(key) || (!queues_.empty() && queues_.contains(key));
}

std::string_view StoreState::value_or_empty(std::string_view key) const {
    const auto found = keys_.find(key);
    return found == keys_.end() ? std::string_view() : found->second->text;
}

void StoreState::put_value(std::string_view key, Outbox& reply) const {
    const auto found = keys_.find(key);
    found == keys_.end() ? put_string(reply.text(), {}) : reply.put_value(found->second);
}

// It takes the store's own last reference.
void StoreState::drop(std::shared_ptr<StoredValue>& value) {
    if (value.use_count() > 1) value->orphan(orphans_);
    value.reset();
}

void StoreState::answer_waiters(Outboxes& out) {
    for (ConnectionId connection : woken_) out.outbox(connection).text().push_back(kReadyReply);
    woken_.clear();
}

void StoreState::tell_watchers(char kind, std::string_view key, const SharedValue& old_value,
                               const SharedValue& new_value, Outboxes& out) {
    const auto watchers = watches_.find(key);
    if (watchers == watches_.end()) return;
    std::size_t size = sizeof(kind) + 3 * sizeof(std::uint64_t) + key.size();
    for (const SharedValue& value : {old_value, new_value}) size += value ? value->text.size() : 0;
    for (ConnectionId connection : watchers->second) {
        if (!out.has_room(connection, size)) continue;
        Outbox& event = out.outbox(connection);
        event.text().push_back(kind);
        put_string(event.text(), key);
        for (const SharedValue& value : {old_value, new_value})
            value ? event.put_value(value) : put_string(event.text(), {});
    }
}

}  // namespace base
}  // namespace ddprun
