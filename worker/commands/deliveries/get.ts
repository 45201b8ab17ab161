import type { deliveries } from "../../../src/protocol/deliveries.ts";
import { requireRow } from "../../ledger/required.ts";
import type { Handler } from "../command.ts";
import { readDelivery } from "./rows.ts";

export const getDelivery: Handler<typeof deliveries.get> = ({ deliveryId }, { ledger }) =>
  readDelivery(ledger, requireRow(ledger, "completion_deliveries", deliveryId, "deliveryId"));
