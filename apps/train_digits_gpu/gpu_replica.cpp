#include "apps/train_digits_gpu/gpu_replica.hpp"

#include <algorithm>
#include <array>
#include <thread>

#include "apps/train_digits/augmentation.hpp"
#include "apps/train_digits_gpu/device_steps.hpp"
#include "collectives/error.hpp"

namespace ddprun {
namespace {

void require(const char* trouble) {
    if (trouble != nullptr)
        throw CollectiveError(CollectiveErrorCode::system, std::string("CUDA: ") + trouble);
}

float* floats(const CudaMemory& memory) { return reinterpret_cast<float*>(memory.data()); }

}  // namespace

GpuReplica::GpuReplica(const Digits& train, const TrainingPlan& plan, int rank, int world_size,
                       std::shared_ptr<const CudaPrimaryContext> context)
    : train_(train),
      plan_(plan),
      rank_(static_cast<std::size_t>(rank)),
      world_size_(static_cast<std::size_t>(world_size)),
      sampler_(train.size(), world_size, rank, {.shuffle = true, .seed = plan.seed}),
      parameters_count_(shape_of(plan).parameter_count()),
      most_images_((plan.batch_size + world_size_ - 1) / world_size_),
      host_pixels_(most_images_ * kImagePixels),
      host_labels_(most_images_),
      context_(std::move(context)),
      parameters_(context_, parameters_count_ * sizeof(float)),
      velocity_(context_, parameters_count_ * sizeof(float)),
      sums_(context_, (parameters_count_ + 2) * sizeof(float)),
      epoch_(context_, 2 * sizeof(float)),
      pixels_(context_, host_pixels_.size() * sizeof(float)),
      labels_(context_, host_labels_.size() * sizeof(std::int32_t)),
      activations_(context_, most_images_ * (2 * plan.hidden + kDigitClasses + 2) * sizeof(float)) {
    const CudaScope scope(*context_);
    context_->driver().require(context_->driver().stream_create(&stream_, kCudaStreamDefault),
                               "making a CUDA stream");
    const std::vector<float> zeros(parameters_count_, 0.0f);
    parameters_.copy_from(initial_parameters(shape_of(plan), plan.seed).data(), parameters_.size());
    velocity_.copy_from(zeros.data(), velocity_.size());
}

GpuReplica::~GpuReplica() { context_->driver().stream_destroy(stream_); }

std::size_t GpuReplica::steps_per_epoch() const {
    return (train_.size() + plan_.batch_size - 1) / plan_.batch_size;
}

std::size_t GpuReplica::images_in(std::size_t step) const {
    return std::min(plan_.batch_size, train_.size() - step * plan_.batch_size);
}

void GpuReplica::begin_epoch(int epoch) {
    settle();
    epoch_number_ = epoch;
    sampler_.set_epoch(static_cast<std::uint64_t>(epoch));
    indices_ = sampler_.indices();
    epoch_images_ = 0;
    const std::array<float, 2> zeros{};
    epoch_.copy_from(zeros.data(), epoch_.size());
}

std::size_t GpuReplica::gather_images(std::size_t step) {
    // Index j of this rank is place rank + j * world_size of the epoch's order.
    const std::size_t begin = step * plan_.batch_size;
    const std::size_t end = begin + images_in(step);
    std::size_t j = begin > rank_ ? (begin - rank_ + world_size_ - 1) / world_size_ : 0;
    std::size_t images = 0;
    std::array<float, kImagePixels> seen{};
    for (; rank_ + j * world_size_ < end; ++j, ++images) {
        const std::size_t index = indices_[j];
        augment(train_.image(index), plan_.seed, epoch_number_, index, seen);
        std::copy(seen.begin(), seen.end(),
                  host_pixels_.begin() + static_cast<std::ptrdiff_t>(images * kImagePixels));
        host_labels_[images] = static_cast<std::int32_t>(train_.labels[index]);
    }
    return images;
}

void GpuReplica::enqueue_compute(std::size_t step) {
    DeviceBatch batch;
    batch.images = gather_images(step);
    pixels_.copy_from(host_pixels_.data(), batch.images * kImagePixels * sizeof(float));
    labels_.copy_from(host_labels_.data(), batch.images * sizeof(std::int32_t));
    batch.inputs = kImagePixels;
    batch.hidden = plan_.hidden;
    batch.outputs = kDigitClasses;
    batch.pixels = floats(pixels_);
    batch.labels = reinterpret_cast<const std::int32_t*>(labels_.data());
    batch.parameters = floats(parameters_);
    batch.hidden_values = floats(activations_);
    batch.hidden_gradients = batch.hidden_values + most_images_ * batch.hidden;
    batch.output_gradients = batch.hidden_gradients + most_images_ * batch.hidden;
    batch.losses = batch.output_gradients + most_images_ * batch.outputs;
    batch.hits = batch.losses + most_images_;
    batch.sums = floats(sums_);
    const CudaScope scope(*context_);
    require(enqueue_gradients(batch, stream_));
}

void GpuReplica::enqueue_apply(std::size_t step) {
    epoch_images_ += images_in(step);
    DeviceUpdate update;
    update.parameter_count = parameters_count_;
    update.scale = 1.0f / static_cast<float>(images_in(step));
    update.momentum = plan_.momentum;
    update.learning_rate = plan_.learning_rate;
    update.sums = floats(sums_);
    update.velocity = floats(velocity_);
    update.parameters = floats(parameters_);
    update.epoch = floats(epoch_);
    const CudaScope scope(*context_);
    require(enqueue_update(update, stream_));
}

void GpuReplica::settle() const {
    const CudaScope scope(*context_);
    // The steps take microseconds, and what waits for other ranks has been waited for by its Work.
    while (context_->driver().stream_query(stream_) == CudaResult::not_ready) std::this_thread::yield();
}

EpochResult GpuReplica::epoch_result() const {
    settle();
    std::array<float, 2> sums{};
    epoch_.copy_to(sums.data(), epoch_.size());
    if (epoch_images_ == 0) return {};
    const auto images = static_cast<double>(epoch_images_);
    return {.loss = static_cast<double>(sums[0]) / images, .accuracy = static_cast<double>(sums[1]) / images};
}

std::vector<float> GpuReplica::parameters() const {
    settle();
    std::vector<float> values(parameters_count_);
    parameters_.copy_to(values.data(), parameters_.size());
    return values;
}

}  // namespace ddprun
