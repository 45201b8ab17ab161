import type { deliveries } from "../../../src/protocol/deliveries.ts";
import type { Handler } from "../command.ts";
import { readDelivery, requireDelivery } from "./rows.ts";

export const getDelivery: Handler<typeof deliveries.get> = ({ deliveryId }, { ledger }) =>
  readDelivery(ledger, requireDelivery(ledger, deliveryId));
